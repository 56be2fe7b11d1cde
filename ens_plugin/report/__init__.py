"""The report of an analysis as text, JSON, HTML and figures; nothing is estimated in this folder."""
