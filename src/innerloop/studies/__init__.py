"""Studies: every claim of the papers, with a verdict; and the circuits beside their algorithms."""
