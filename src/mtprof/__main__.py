"""python -m mtprof: the command mtprof, where its folder is not on PATH, or the environment was moved."""
import os
import shutil
import signal
import sys


def command():
    """The path of the command, or None."""
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "mtprof")  # in a wheel
    if os.access(beside, os.X_OK):
        return beside
    from importlib import resources  # slow to import

    built = str(resources.files("mtprof") / "bin" / "mtprof")  # of an editable install: in its build folder
    return built if os.access(built, os.X_OK) else shutil.which("mtprof")


def main():
    path = command()
    if path is None:
        sys.exit("mtprof: the command is not installed beside the package, and not on PATH")
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores: not so the programs that `mtprof run` starts
        signal.signal(number, signal.SIG_DFL)
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
