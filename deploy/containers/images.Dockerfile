# Stand-ins of the images that Dockerfile and docker-compose.yml use, for debian.sh: the same users, folders, volumes and
# entry points, with programs of Debian. images.tar has unpacked packages, which no script has configured.
FROM scratch AS debian
ADD images.tar /
COPY <<END /etc/passwd
root:x:0:0::/root:/bin/sh
redis:x:999:1000::/data:/bin/sh
nobody:x:65534:65534::/:/bin/sh
END
COPY <<END /etc/group
root:x:0:
redis:x:1000:
END
RUN mkdir -p /usr/local/bin && ln -s /usr/bin/busybox /usr/local/bin/wget

FROM debian AS golang
ADD go.tar /usr/local/go
COPY modules /modules
ENV GOTOOLCHAIN=local GOPROXY=file:///modules PATH=/usr/local/go/bin:/usr/bin

# Debian's busybox has no programs for accounts. These do what Dockerfile needs.
FROM scratch AS alpine
COPY --from=debian /usr/bin/busybox /bin/busybox
RUN ["/bin/busybox", "sh", "-c", "/bin/busybox --install -s /bin && mkdir -p /etc /tmp /var/lib /usr/local/bin /usr/sbin && echo root:x:0:0::/:/bin/sh > /etc/passwd && echo root:x:0: > /etc/group"]
COPY --chmod=755 <<"END" /usr/sbin/addgroup
#!/bin/sh
echo "$3:x:$2:" >>/etc/group
END
COPY --chmod=755 <<"END" /usr/sbin/adduser
#!/bin/sh
for name; do :; done
echo "$name:x:65532:65532::/:/sbin/nologin" >>/etc/passwd
END
ENV PATH=/usr/local/bin:/usr/sbin:/bin

FROM debian AS redis
RUN mkdir /data && chown redis:redis /data
VOLUME /data
WORKDIR /data

FROM debian AS mysql
COPY <<END /etc/passwd
root:x:0:0::/root:/bin/sh
mysql:x:999:999::/var/lib/mysql:/bin/sh
END
RUN mkdir -p /var/lib/mysql /var/run/mysqld && chown 999:999 /var/lib/mysql && chmod 1777 /var/lib/mysql /tmp
COPY <<END /etc/my.cnf
[mysqld]
socket=/var/run/mysqld/mysqld.sock
pid-file=/var/run/mysqld/mysqld.pid
skip-name-resolve
secure-file-priv=NULL
END
COPY --chmod=755 <<"END" /mysql.sh
#!/bin/sh
set -eu
if [ ! -d /var/lib/mysql/mysql ]; then
	"$@" --initialize-insecure
	cat >/tmp/init.sql <<SQL
CREATE DATABASE $MYSQL_DATABASE;
CREATE USER $MYSQL_USER IDENTIFIED BY '$MYSQL_PASSWORD';
GRANT ALL ON $MYSQL_DATABASE.* TO $MYSQL_USER;
ALTER USER root@localhost IDENTIFIED BY '$MYSQL_ROOT_PASSWORD';
SQL
	set -- "$@" --init-file=/tmp/init.sql
fi
exec "$@"
END
VOLUME /var/lib/mysql
ENTRYPOINT ["/mysql.sh"]

FROM debian AS caddy
RUN mkdir -p /config/caddy /data/caddy && setcap cap_net_bind_service=+ep /usr/bin/caddy
ENV XDG_CONFIG_HOME=/config XDG_DATA_HOME=/data
CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]

FROM debian AS prometheus
RUN mkdir -p /prometheus && chown 65534:65534 /prometheus
USER 65534
VOLUME /prometheus
ENTRYPOINT ["/usr/bin/prometheus"]
