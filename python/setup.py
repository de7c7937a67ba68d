"""Builds the extension with libsonde's sources compiled in: no library has to be installed.

    pip install --no-build-isolation --no-index ./python

CFLAGS and LDFLAGS are honoured: CMake gives -Werror, which would be no help to those who install it with
another compiler."""
import atexit
import os
import pathlib
import shutil
import sysconfig
import tempfile

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
if not (ROOT / "src/record").is_dir():
    raise SystemExit(f"sonde: {ROOT}/src/record is missing: the package is built inside sonde's source tree")
os.chdir(HERE)

# What is made on the way, so that nothing is left among the sources.
SCRATCH = tempfile.mkdtemp(prefix="sonde-setup-")
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)

LIBRARY = [*sorted((ROOT / "src/record").glob("*.c")), *sorted((ROOT / "src/segment").glob("*.c")),
           ROOT / "src/base/utf8.c"]
HEADERS = [path for folder in (HERE / "native", ROOT / "include", ROOT / "src/record", ROOT / "src/segment")
           for path in sorted(folder.rglob("*.h"))]
# One build for all versions, but for free-threaded ones: their ABI is not stable.
LIMITED = [] if sysconfig.get_config_var("Py_GIL_DISABLED") else [("Py_LIMITED_API", "0x030b0000")]


class BuildWithLibrary(build_ext):
    """setup() takes paths below this folder only; a compiler takes all."""

    def build_extension(self, extension):
        extension.sources = [*extension.sources, *map(str, LIBRARY)]
        super().build_extension(extension)


setup(
    packages=find_packages(include=["sonde", "sonde.*"]),
    include_package_data=False,
    package_data={"sonde": ["py.typed", "*.pyi"]},
    cmdclass={"build_ext": BuildWithLibrary},
    ext_modules=[Extension(
        "sonde._native", sorted(f"native/{path.name}" for path in (HERE / "native").glob("*.c")),
        include_dirs=[str(ROOT / "include"), str(ROOT / "src")], depends=[str(path) for path in HEADERS],
        define_macros=[("_GNU_SOURCE", "1"), ("SONDE_BUILDING", "1"), *LIMITED],
        py_limited_api=bool(LIMITED),
        # Hidden: other copies of libsonde in the process keep to their own. nodelete: nobody unloads
        # it, so its end is the process's. initial-exec: a record reads thread-local state in one load.
        extra_compile_args=["-std=gnu11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow",
                            "-fvisibility=hidden", "-ftls-model=initial-exec"],
        extra_link_args=["-Wl,-z,nodelete", f"-Wl,--version-script={HERE}/native/native.map"],
    )],
    options={"bdist_wheel": {**({"py_limited_api": "cp311"} if LIMITED else {}), "bdist_dir": f"{SCRATCH}/wheel"},
             "build": {"build_base": f"{SCRATCH}/build"}, "egg_info": {"egg_base": SCRATCH}},
)
