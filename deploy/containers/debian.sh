#!/usr/bin/env bash
# Runs check.sh COPY on a Debian machine that has neither a Docker engine nor a registry. The engine comes from Debian's
# packages, the images are stand-ins with programs of Debian (images.Dockerfile) under the names that Dockerfile and
# docker-compose.yml use. All processes end with their namespace, whose network has no way out and no port of this machine.
set -euo pipefail
copy=$1
work=${WORK:-/var/tmp/seckill-containers}

if [ -z "${INSIDE-}" ]; then
	# Packages are downloaded with an apt of its own, which waits for no lock, and unpacked, but not configured. The lists of a
	# mirror may be older than they allow.
	unpack() { # SUITE TARGET PACKAGES...
		local apt=$work/apt-$1 target=$work/new-$1 mirror options
		[ ! -e "$work/$2" ] || return 0
		rm -rf "$apt" "$target"
		mkdir -p "$apt"/{lists,cache/archives}/partial "$target"
		mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)
		echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" >"$apt/sources.list"
		: >"$apt/status"
		options=(-qq -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$apt/lists"
			-o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" -o Debug::NoLocking=1 -o APT::Sandbox::User=root
			-o Acquire::Check-Valid-Until=false -o Acquire::Languages=none)
		apt-get "${options[@]}" update
		apt-get "${options[@]}" install -y --no-install-recommends --download-only "${@:3}" >/dev/null
		# First the one that makes /bin a link to /usr/bin.
		for package in "$apt"/cache/archives/{base-files_,}*.deb; do
			dpkg-deb --extract "$package" "$target"
		done
		if [ "${2%.tar}" != "$2" ]; then
			tar -C "$target" -cf "$target.tar" .
			rm -rf "$target"
			target+=.tar
		fi
		mv "$target" "$work/$2"
		rm -rf "$apt"
	}
	mkdir -p "$work/docker"
	base=(base-files bash coreutils dash findutils grep libc-bin sed)
	unpack trixie engine "${base[@]}" curl docker-buildx docker-cli docker-compose docker.io iproute2 iptables make mount procps &
	unpack sid images.tar "${base[@]}" busybox-static caddy libcap2-bin mysql-client-core mysql-server-core prometheus redis-server
	wait $!

	images=$work/engine/images
	rm -rf "$images"
	mkdir -p "$images" "$work"/engine/{check,old,var/lib/docker}
	ln "$work/images.tar" "$images/"
	cp deploy/containers/images.Dockerfile "$images/Dockerfile"
	if [ -z "${PROGRAM-}" ]; then
		# The Dockerfile builds the program, with the toolchain and the modules of this machine.
		tar -C "$(go env GOROOT)" --exclude=./test -cf "$images/go.tar" .
		GOFLAGS='' GOMODCACHE="$work/modules" go mod download
		cp -al "$work/modules/cache/download" "$images/modules"
	fi
	INSIDE=1 exec unshare --net --mount --uts --pid --fork --kill-child bash "$0" "$copy"
fi

# A new root. With chroot, docker exec would enter a container at the root of its mount namespace, and see this machine.
cgroups=$(realpath /sys/fs/cgroup)
mount --make-rprivate /
mount --bind "$work/engine" "$work/engine"
mount --bind "$work/docker" "$work/engine/var/lib/docker"
mount --bind "$copy" "$work/engine/check"
cd "$work/engine"
pivot_root . old
export PATH=/usr/sbin:/usr/bin HOME=/root
hash -r
mount -t proc proc /proc
mount -t sysfs sys /sys
mount --rbind "/old$cgroups" /sys/fs/cgroup
mount --rbind /old/dev /dev
# Nothing of an earlier run that was killed may remain, such as the number of its dockerd. /var/run is no link to /run here.
for folder in /run /var/run /tmp; do
	mount -t tmpfs tmpfs "$folder"
done
umount -l /old
ip link set lo up
echo 'root:x:0:0::/root:/bin/sh' >/etc/passwd
echo 'root:x:0:' >/etc/group
for name in iptables ip6tables; do
	ln -sf xtables-nft-multi "/usr/sbin/$name"
done

# The folders of the control groups are all that would remain on the machine.
dockerd --cgroup-parent=/seckill-check >/var/log/dockerd 2>&1 &
dockerd=$!
stop() {
	kill $dockerd
	wait $dockerd || true
	find /sys/fs/cgroup -depth -type d -path '*/seckill-check*' -exec rmdir {} + 2>/dev/null || true
}
trap stop EXIT
until docker version >/dev/null 2>&1; do
	if [ "$SECONDS" -ge 120 ] || ! kill -0 $dockerd; then
		tail -n 20 /var/log/dockerd
		exit 1
	fi
	sleep 1
done
docker version --format 'Docker {{.Server.Version}}'
docker compose version

# Without CAP_SYS_RESOURCE nobody may raise the limit of open files.
cd /check/src
files=$(ulimit -Hn)
if [ "$files" != unlimited ] && [ "$files" -lt 65536 ]; then
	echo "services: {app: {ulimits: {nofile: $files}}, proxy: {ulimits: {nofile: $files}}}" >../limits.yml
fi

images="alpine redis mysql caddy prom/prometheus"
[ ! -e /images/go.tar ] || images="golang $images"
for image in $images; do
	tag=$(grep -ohE "(image: |FROM (--platform=\S+ )?)$image:\S+" Dockerfile docker-compose.yml | head -1)
	docker build -q --target "${image#prom/}" -t "${tag##* }" /images >/dev/null
done
docker image prune -f >/dev/null
echo "Not checked: Grafana, which Debian does not have."
OBSERVABILITY=prometheus deploy/containers/check.sh /check
