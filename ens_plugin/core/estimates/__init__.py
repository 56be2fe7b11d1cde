"""From tallies and row models to estimates: error curves, recommended sizes, agreement, squared losses."""
