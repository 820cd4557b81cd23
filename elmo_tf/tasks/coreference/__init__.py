"""End-to-end coreference resolution: tokens ─► spans ─► kept spans ─► antecedents ─► entities."""
