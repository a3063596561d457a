"""The training corpus: what is read (sources), how a format becomes text (formats), how text is cleaned (clean)."""
