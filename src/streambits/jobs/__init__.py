"""Jobs: streams from a source to a sink, unattended, with checkpoints that lose nothing."""
