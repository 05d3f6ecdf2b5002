# test: slow
"""An installed compiler that was moved elsewhere: it compiles and its programs run, with the tree it was built from out of reach."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import harness

MODEL = harness.ROOT / "samples" / "mlp" / "mlp.onnxtxt"
SCHEDULE = harness.ROOT / "samples" / "mlp" / "tp2.yaml"
# Mounts an empty folder over the tree, for this command alone; then compiles and runs.
SCRIPT = """
set -e
mount -t tmpfs none "$ROOT"
[ -z "$(ls "$ROOT")" ]
"$PLACE/bin/weft" compile model.onnxtxt --schedule tp2.yaml -o program --quiet
./program --random-inputs 1
"$PLACE/bin/weft" compile model.onnxtxt --emit source -o sources
"""


def can_hide():
    return subprocess.run(["unshare", "--map-root-user", "--mount", "true"], capture_output=True).returncode == 0


def main():
    home = pathlib.Path(tempfile.mkdtemp(prefix="weft_install_"))
    try:
        status, out, err = harness.run(["cmake", "--install", harness.BUILD, "--prefix", home / "first"])
        if not harness.check("install", status == 0, f"exit {status}: {(err or out)[-300:]}"):
            return
        place = home / "elsewhere" / "weft"
        place.parent.mkdir()
        (home / "first").rename(place)
        # Those of other machines lie in folders of their own.
        libraries, built = (sorted(str(path.relative_to(folder)) for path in folder.glob(pattern))
                            for folder, pattern in ((place / "lib", "**/*.*"), (harness.BUILD / "runtime_lib", "**/libweft_runtime*.a")))
        harness.check("install/libraries", libraries == built, f"{libraries}, not {built}")
        shutil.copy(MODEL, home / "model.onnxtxt")
        shutil.copy(SCHEDULE, home / "tp2.yaml")
        if not can_hide():
            harness.skipped("moved", "this machine gives no mount namespace in which the tree could be hidden")
            return
        environment = dict(os.environ, ROOT=str(harness.ROOT), PLACE=str(place))
        status, out, err = harness.run(["unshare", "--map-root-user", "--mount", "sh", "-c", SCRIPT], env=environment, cwd=home)
        harness.check("moved", status == 0 and (home / "program").exists(), f"exit {status}: {(out + err)[-400:]}")
        harness.check("moved/source", (home / "sources" / "runtime_lib" / "include" / "weft" / "host.h").exists(), "no runtime library beside the sources")
    finally:
        shutil.rmtree(home)


harness.need_weft()
main()
