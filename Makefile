# Tilemark: how many guests this host carries. `make quick` is the way in; `make help` lists the rest.

SHELL := /bin/bash
PREFIX ?= /usr/local
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
# Installing needs it only where the place is not the user's own.
INSTALL_SUDO = $(shell place="$(DESTDIR)$(PREFIX)"; until [ -e "$$place" ]; do place=$$(dirname "$$place"); done; \
	[ -w "$$place" ] || echo $(SUDO))

# What the program needs at run time, and what its tests need besides.
TOOLS := qemu-system-x86 mmdebstrap erofs-utils xfsprogs
TEST_TOOLS := $(TOOLS) chromium cpio fio groff-base kmod libc6-dev lz4 mariadb-server nginx-light postgresql procps \
	python3-celery python3-pika rabbitmq-server xz-utils zstd $(if $(shell command -v go),,golang-go) $(if $(shell command -v mvn),,maven)

.PHONY: help quick build test lab soak install uninstall dist tools test-tools rust
help:
	@echo "make quick      build, make the guest image, take a first look at this host"
	@echo "make build      build target/release/tilemark"
	@echo "make test       all that CI runs"
	@echo "make lab        all tests in the lab, the long ones too (an emulated server with KVM inside)"
	@echo "make soak       what tests do in short at length, the fuzzing and all attacks; TRIALS=\"fuzzing attacks\" chooses"
	@echo "make install    install to $(PREFIX), with the manual, completions, documents and scenarios"
	@echo "make uninstall  remove what make install placed; records, images and packages stay"
	@echo "make dist       an archive and a Debian package in target/dist, for hosts without a compiler"

quick: tools build
	@echo $(SUDO) target/release/tilemark quick
	@$(SUDO) env TILEMARK_HOME="$$TILEMARK_HOME" target/release/tilemark quick || { code=$$?; \
		[ $$code = 5 ] && echo "Finished; the verdict is NOT TRUSTED or CANNOT TELL. The reasons are above." || exit $$code; }

# The agent first, in the same folder: then each library is compiled once for both. Plain `cargo build` makes an agent of its own.
build: rust
	cargo rustc --release --locked --package tilemark-agent -- -C target-feature=+crt-static -C strip=symbols
	TILEMARK_AGENT_BUILT=$(CURDIR)/target/release/tilemark-agent cargo build --release --locked --package tilemark

test: rust test-tools
	cargo xtask ci

lab: rust test-tools
	cargo build --package tilemark --locked
	cargo test --package xtask --locked --test lab -- --include-ignored

soak: rust test-tools
	cargo xtask soak $(TRIALS)

install: build
	rm -rf target/tree
	packaging/tree.sh target/release/tilemark target/tree
	$(INSTALL_SUDO) mkdir -p $(DESTDIR)$(PREFIX)
	$(INSTALL_SUDO) cp --recursive --no-preserve=ownership target/tree/. $(DESTDIR)$(PREFIX)

# What packaging/tree.sh makes, by its names: the tree of another version has other pages.
INSTALLED := bin/tilemark share/doc/tilemark share/man/man1/tilemark.1 share/man/man1/tilemark-*.1 \
	share/bash-completion/completions/tilemark share/zsh/site-functions/_tilemark share/fish/vendor_completions.d/tilemark.fish

uninstall:
	cd "$(DESTDIR)$(PREFIX)" && $(INSTALL_SUDO) rm -rf $(INSTALLED)

dist: rust
	packaging/package.sh "$$(packaging/build.sh target/dist)" target/dist

# Says what it installs, and installs only what is missing.
define need
	@missing=(); for package in $(1); do \
		dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'install ok installed' || missing+=($$package); \
	done; \
	if [ $${#missing[@]} -gt 0 ]; then \
		echo $(SUDO) apt-get update; \
		echo $(SUDO) apt-get install --yes --no-install-recommends $${missing[*]}; \
		$(SUDO) apt-get update --quiet --quiet && \
		$(SUDO) env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install --yes --quiet --quiet \
			--no-install-recommends "$${missing[@]}" >/dev/null; \
	fi
endef

tools:
	$(call need,$(TOOLS))

test-tools:
	$(call need,$(TEST_TOOLS))

rust:
	@command -v cargo >/dev/null || { echo "error: no cargo"; \
		echo "  to fix: install Rust 1.90 or newer, see https://rustup.rs"; exit 3; }
