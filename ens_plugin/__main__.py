"""``python -m ens_plugin``: runs the command line also where the script ``ens-plugin`` is not on the path."""

from ens_plugin.cli.main import main

if __name__ == "__main__":
    main()
