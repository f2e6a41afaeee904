"""Classical algorithms, batched over prompts and prefixes."""
