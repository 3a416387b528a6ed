# Run by tools/test_clean as root: the packages in /srv are installed, used, upgraded and purged.
cd /root
export APT_CONFIG=/root/apt.conf
echo 'Dpkg::Use-Pty "0"; APT::Get::Assume-Yes "1";' >$APT_CONFIG
apt() { apt-get -qq "$@" >apt.log 2>&1 || { cat apt.log && return 1; }; }
packages="libmtprof0 libmtprof-dev mtprof python3-mtprof"

# All files but those of apt and dpkg themselves, and caches, such as man's.
list_files() { find / -xdev \( -path /proc -o -path /srv -o -path /root -o -path /tmp -o -path /var/log -o -path /var/cache -o -path /var/lib/apt \
    -o -path /var/lib/dpkg -o -path /run \) -prune -o -print | sort; }

use() {
    rm -rf work && mkdir work && cd work
    mtprof run -- /usr/bin/python3 -c 'def f(): pass
f()' >run.txt 2>summary.txt
    mtprof table --python-functions run.mtp | grep -q "<string>(1): f"
    python3 -c "import mtprof, mtprof.profiler; print('import mtprof', mtprof.__version__)"
    man mtprof | grep -q "mtprof - "
    man mtprof run | grep -q "mtprof run"
    cc /srv/engine.c $(pkg-config --cflags --libs mtprof) -o engine
    ./engine | grep -q "aten::mm"
    cc /srv/engine.c -static $(pkg-config --static --cflags --libs mtprof) -o engine 2>cc.txt # warns of dlopen
    ./engine | grep -q "aten::mm"
    test -e engine.json.gz
    test -e /usr/share/bash-completion/completions/mtprof
    cd ..
}

purge() {
    apt purge $packages libmtprof0-dbgsym mtprof-dbgsym python3-mtprof-dbgsym
    if find / -xdev -name '*mtprof*' -not -path '/srv/*' -not -path '/root/*' -not -path '/proc/*' -not -path '/var/cache/*' | grep .; then
        echo "purge left these" && exit 1
    fi
}

apt update
apt install make pkg-config man-db
apt install /srv/*.deb
echo "installed: $(dpkg-query -W -f '${Package} ${Installed-Size} KB, ' $packages)"
list_files >with
use
list_files >used
diff with used || { echo "use left these" && exit 1; }
purge
list_files >without

apt install /srv/*.deb
apt install --reinstall /srv/*.deb
use
mkdir -p next
for package in $packages; do
    dpkg-deb -R /srv/${package}_*.deb next/$package
    sed -i -E '/^Version:/s/$/+next/; /^Depends:/s/(libmtprof0 \(= [^)]*)/\1+next/' next/$package/DEBIAN/control
    dpkg-deb -b next/$package next/$package.deb >/dev/null
done
apt purge libmtprof0-dbgsym mtprof-dbgsym python3-mtprof-dbgsym
apt install ./next/*.deb
dpkg-query -W -f '${Version}\n' $packages | sort -u | grep -q '+next$'
use
echo "upgraded: $(dpkg-query -W -f '${Package} ${Version}, ' $packages)"
apt purge $packages
list_files >after
diff without after
echo "purged: $(wc -l <after) files, as before"
