"""Where rows come from (`io.rows`) and where codes go (`io.codes`)."""
