# The command alone. Stores lie on a volume:
#
#	docker run --rm --user "$(id -u)" -v "$PWD/data:/data" ghcr.io/brockdb/brock stats /data
FROM scratch
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/brock /brock
COPY LICENSE /LICENSE
ENTRYPOINT ["/brock"]
