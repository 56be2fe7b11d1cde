"""``python -m ens_plugin``: the command line, where its script is not on the path."""

from ens_plugin.cli.main import main

if __name__ == "__main__":
    main()
