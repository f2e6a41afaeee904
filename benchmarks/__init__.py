"""Speeds as ratios against plain implementations, measured in the same run."""
