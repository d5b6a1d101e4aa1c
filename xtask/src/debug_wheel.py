"""Makes a wheel of the package from the native library that the build of the tests has left.

`python debug_wheel.py LIBRARY VERSION FOLDER`. maturin builds the library anew: cargo unifies the features of one package otherwise than those
of the workspace. Releases and `CI=true` use maturin.
"""

import sys
import zipfile
from pathlib import Path

library, version, folder = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
sources = Path("python/shardpack")
tag = "py3-none-any"
info = f"shardpack-{version}.dist-info"
texts = {
    "METADATA": f"Metadata-Version: 2.1\nName: shardpack\nVersion: {version}\n",
    "WHEEL": f"Wheel-Version: 1.0\nGenerator: debug_wheel\nRoot-Is-Purelib: false\nTag: {tag}\n",
    "entry_points.txt": "[console_scripts]\nshardpack = shardpack.__main__:main\n",
}
folder.mkdir(parents=True)
with zipfile.ZipFile(folder / f"shardpack-{version}-{tag}.whl", "w") as wheel:
    for source in sorted(sources.rglob("*")):
        if source.is_file() and "__pycache__" not in source.parts:
            wheel.write(source, f"shardpack/{source.relative_to(sources)}")
    wheel.write(library, "shardpack/_native.abi3.so")
    for name, text in texts.items():
        wheel.writestr(f"{info}/{name}", text)
    names = [*wheel.namelist(), f"{info}/RECORD"]
    wheel.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in names))
