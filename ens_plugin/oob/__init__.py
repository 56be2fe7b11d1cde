"""Out-of-bag rows as a primitive: their predictions, what features matter to them, and how uncertain a prediction is."""  # noqa: E501
