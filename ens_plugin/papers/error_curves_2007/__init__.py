"""Hernandez-Lobato et al. 2007: error curves of bagged votes, and the bias of their plug-in estimate."""
