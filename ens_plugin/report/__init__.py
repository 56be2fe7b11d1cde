"""The result of an analysis and how it is shown: text, JSON, HTML and pictures; nothing is estimated here."""
