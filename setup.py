"""The compiled part, which a build goes on without where there is no C compiler; all else is in pyproject.toml."""

from __future__ import annotations

from glob import glob
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel


class Wheel(bdist_wheel):
    """A wheel for one platform and Python 3.10 or newer with the compiled part, and for all of them without."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tag, which states whether the compiled part was built."""
        built = self.get_finalized_command("build_ext").get_outputs()
        self.root_is_pure = not any(Path(path).exists() for path in built)
        self.py_limited_api = "cp310"
        tag: tuple[str, str, str] = super().get_tag()
        return tag


setup(
    ext_modules=[
        Extension(
            "ens_plugin._kernel.native",
            ["ens_plugin/_kernel/native.c"],
            depends=glob("ens_plugin/_kernel/*.h"),
            define_macros=[("Py_LIMITED_API", "0x030A0000")],
            py_limited_api=True,
            optional=True,
        )
    ],
    cmdclass={"bdist_wheel": Wheel},
)
