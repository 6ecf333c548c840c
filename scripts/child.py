# A program run under a limit of time, with all that it starts, and files to be written when it is
# done. Imported by scripts/compare and scripts/regress, whose children may hang or start others.
import atexit
import os
import signal
import subprocess
import sys

GRACE_S = 5  # between the asking and the killing; mpirun passes the first on to its ranks


def end_group(child):
    """All of the child's group: asked, and killed if that does not do."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            break
        try:
            child.communicate(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            continue
    child.wait()


def run(words, environment, limit_s):
    """(exit code, text of stderr); the code is None when it had not ended after limit_s."""
    with subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          errors="replace", start_new_session=True) as child:
        try:
            _, text = child.communicate(timeout=limit_s)
            return child.returncode, text
        except subprocess.TimeoutExpired:
            end_group(child)
            return None, ""
        except BaseException:
            end_group(child)
            raise


def end_children_on_signals():
    """SIGTERM ends this script as SIGINT does, so that `run` ends what it started."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def remove_if_empty(path):
    if os.path.isfile(path) and os.path.getsize(path) == 0:
        os.unlink(path)


def open_output(path):
    """The file, as it is until `write_output`; a new one goes again if nothing is written."""
    file = open(path, "ab")
    atexit.register(remove_if_empty, path)
    return file


def write_output(file, data):
    if file.seekable():
        file.truncate(0)
    file.write(data)
    file.close()
