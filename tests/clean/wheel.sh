# Run by tools/test_clean as an ordinary user, in a Debian that has Python but neither compiler nor network: the wheel in /srv.
for compiler in cc c99 gcc g++ clang tcc; do
    ! command -v $compiler || exit 1
done
! python3 -c 'import socket; socket.create_connection(("192.0.2.1", 80), 2)' 2>error || exit 1
grep -q unreachable error
python3 - /srv/mtprof-*.whl <<'END'
import os, sys
size = os.path.getsize(sys.argv[1])
print(f"{os.path.basename(sys.argv[1])}: {size / 1e6:.2f} MB")
sys.exit(size > 3e6)
END

python3 -m venv env
env/bin/pip install -q --no-index /srv/mtprof-*.whl
PATH=$HOME/env/bin:$PATH
cat >prog.py <<'END'
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
print("fib", fib(15))
END
mtprof run -- python3 prog.py >run.txt 2>summary.txt || { cat summary.txt && exit 1; }
grep -qx "fib 610" run.txt
mtprof table --python-functions --sort count --limit 3 run.mtp >table.txt
grep -q "prog.py(1): fib" table.txt
cut -c 1-110 table.txt
python3 -m mtprof info >info.txt
grep -q "scopes, Python, PyTorch" info.txt
test -e env/share/man/man1/mtprof-run.1

python3 - <<'END'
import subprocess, sys
command = [sys.executable, "-X", "importtime", "-c", "import mtprof"]
told = [subprocess.run(command, capture_output=True, text=True).stderr.splitlines()[-1] for _ in range(21)]
times = sorted(int(line.split("|")[1]) / 1000 for line in told)
print(f"import mtprof: {times[0]:.2f} ms at best, median {times[10]:.2f} ms, {times[-1]:.2f} ms at worst")
sys.exit(times[10] > 10)
END
