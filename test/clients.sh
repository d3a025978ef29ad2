#!/usr/bin/env bash
# Generates clients of the HTTP API from its OpenAPI document, in Go and in TypeScript, as its users do, and compiles them. With
# an argument, the clients stay in that folder.
set -euo pipefail

document=$(cd "$(dirname "$0")/.." && pwd)/internal/handler/openapi.json
if [ $# -gt 0 ]; then
	mkdir -p "$1"
	folder=$1
else
	folder=$(mktemp -d)
	trap 'rm -r "$folder"' EXIT
fi
cd "$folder"
unset GOFLAGS # those of the project's Makefile

[ -e go.mod ] || go mod init seckillclient
go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 \
	-generate types,client -package seckillclient -o client.go "$document"
go mod tidy
go vet ./...

npx --yes openapi-typescript@7.13.0 "$document" --output seckill.d.ts
npx --yes --package typescript@5.9.3 tsc --noEmit --strict seckill.d.ts
