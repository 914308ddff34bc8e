# pico: run GGUF language models on the CPU with small programs.
#
#   make            the programs, in build/bin
#   make demo       a story from the small model that ships
#   make test       everything; ends with N passed, N failed, N skipped
#   make install    PREFIX=/usr/local DESTDIR=
#   make help       the other targets

-include config.mk

PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man
CC ?= cc
AR ?= ar
CFLAGS ?= -O2 -g
BUILD ?= build

# -ffp-contract=off: the same bits on every machine, pico(7).
# No SIMD flags: vector code carries its own, chosen when the program runs.
ALL_CFLAGS = -std=c11 -D_POSIX_C_SOURCE=200809L -D_FILE_OFFSET_BITS=64 \
	-ffp-contract=off -Wall -Wextra -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wvla -pthread $(HARDEN_CFLAGS) $(WERROR) \
	$(CFLAGS) $(EXTRA_CFLAGS) $(DEFINES)
ALL_LDFLAGS = -pthread $(HARDEN_LDFLAGS) $(LDFLAGS) $(EXTRA_LDFLAGS)
LIBS = -lm

# Against faults we do not know of: canaries, checked copies, addresses that
# cannot be guessed, tables that cannot be written to. HARDEN=no goes without.
# Then: each program only what it calls.
HARDEN ?= yes
# those of the flags $(1) that compiler and linker take
taken = $(shell t() { echo 'int main(void) { return 0; }' | $(CC) -Werror \
	$(LDFLAGS) "$$@" -x c -o /dev/null - 2>/dev/null; }; \
	if t $(1); then echo $(1); else \
	for f in $(1); do if t $$f; then echo $$f; fi; done; fi)
SECTIONS_C = -ffunction-sections -fdata-sections
SECTIONS_LD = -Wl,--gc-sections
# A static program has its own place, and no tables that are filled in when it
# starts. Fortified headers want an optimizer.
KIND = $(if $(filter -static,$(LDFLAGS)),static,pie)
KIND_C.pie = -fPIE
KIND_C.static = -fno-pie
KIND_LD.pie = -pie -Wl,-z,relro -Wl,-z,now
KIND_LD.static = -no-pie -Wl,-z,norelro
HARDEN_C.yes = -fstack-protector-strong -fcf-protection $(KIND_C.$(KIND)) \
	$(if $(filter -O%,$(filter-out -O0,$(CFLAGS))), \
	-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
HARDEN_LD.yes = -Wl,-z,noexecstack $(KIND_LD.$(KIND))

# SMALL=1: a third of the bytes, for the AVX-512 kernels, half the speed of the
# AVX2 ones (a quarter with many columns), and marks of jump targets, which
# static programs are not asked for.
ifdef SMALL
CFLAGS = $(SMALL_O) -g -fno-asynchronous-unwind-tables -fcf-protection=none \
	-DPICO_SMALL
SMALL_O := $(or $(call taken,-Oz),-Os)
SMALL_LD = -Wl,-z,noseparate-code
endif

HARDEN_CFLAGS := $(call taken,$(SECTIONS_C) $(HARDEN_C.$(HARDEN)))
HARDEN_LDFLAGS := $(call taken,$(SECTIONS_LD) $(HARDEN_LD.$(HARDEN)) \
	$(SMALL_LD))

PROGS = $(patsubst cmd/pico-%.c,pico-%,$(wildcard cmd/pico-*.c))
CMD_OBJ = $(patsubst %.c,$(BUILD)/%.o,$(filter-out cmd/pico-%.c, \
	$(wildcard cmd/*.c)))
LIB_SRC = $(sort $(wildcard lib/*/*.c))
LIB_OBJ = $(LIB_SRC:%.c=$(BUILD)/%.o)
BENCH = $(BUILD)/bench/mkmodel $(BUILD)/bench/limits
UNIT = $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(wildcard tests/unit/test_*.c))

# `force` is never made: what needs it is looked at every time
.PHONY: force all units test bench demo model-variants lint lint-c install \
	uninstall clean help \
	check-asan check-ubsan check-tsan check-msan check-valgrind \
	check-posix check-musl check-arm64 check-armhf check-riscv64 check-x86-64 \
	fuzz fuzzers schema-random dist

all: $(PROGS:%=$(BUILD)/bin/%) $(BUILD)/libpico.a

# A file in BUILD that holds a text, and is new when the text is.
define noted
$(if $(subst <$(strip $(2))>,,<$(strip \
    $(shell cat $(BUILD)/$(1) 2>/dev/null))>),$(BUILD)/$(1): force)
$(BUILD)/$(1):
	@mkdir -p $$(@D)
	@echo '$(subst ','\'',$(strip $(2)))' >$$@
endef

# What was built with other flags is built again.
FLAGS := $(CC) $(ALL_CFLAGS) $(VECTOR_CFLAGS) $(ALL_LDFLAGS)
$(eval $(call noted,flags,$(FLAGS)))

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

ifdef SMALL
ifeq ($(filter x86_64%,$(shell $(CC) -dumpmachine)),)
$(filter $(BUILD)/lib/kernel/%,$(LIB_OBJ)): DEFINES = -O2
endif
$(BUILD)/lib/kernel/avx2_small.o: DEFINES = -O2
endif

VECTOR_OBJ = $(filter $(BUILD)/lib/kernel/avx% $(BUILD)/lib/kernel/neon%, \
	$(LIB_OBJ))
$(VECTOR_OBJ): DEFINES += $(VECTOR_CFLAGS)

# Loops over numbers that compilers can make vectors of.
$(BUILD)/lib/convert/rows.o: DEFINES = -O3

# Vectors are passed within one file only: how they are is no matter.
$(filter $(BUILD)/lib/quant/search%,$(LIB_OBJ)): DEFINES = -Wno-psabi

# The place of the default model is built in, so a new one rebuilds it.
$(BUILD)/cmd/cmd.o: DEFINES = -DPICO_DATADIR='"$(DATADIR)/pico"'
$(BUILD)/cmd/cmd.o: $(BUILD)/places
$(eval $(call noted,places,$(PREFIX) $(LIBDIR) $(INCLUDEDIR) $(DATADIR)))

$(BUILD)/libpico.a: $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $(LIB_OBJ)

# What programs share; each takes what it uses.
$(BUILD)/cmd.a: $(CMD_OBJ)
	@rm -f $@
	$(AR) rcs $@ $(CMD_OBJ)

$(BUILD)/bin/pico-%: $(BUILD)/cmd/pico-%.o $(BUILD)/cmd.a $(BUILD)/libpico.a
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $< $(BUILD)/cmd.a $(BUILD)/libpico.a $(LIBS)

$(BUILD)/unit/%: $(BUILD)/tests/unit/%.o $(BUILD)/libpico.a
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $< $(BUILD)/libpico.a $(LIBS)

# Memory is refused there: its calls go through the test.
$(BUILD)/unit/test_alloc: EXTRA_LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc \
	-Wl,--wrap=realloc,--wrap=posix_memalign,--wrap=strdup,--wrap=free \
	-Wl,--wrap=realpath

BENCH_LIBS = $(BUILD)/cmd.a $(BUILD)/libpico.a
$(BUILD)/bench/mkmodel: $(BUILD)/tests/mkmodel.o $(BENCH_LIBS)
$(BUILD)/bench/limits: $(BUILD)/tests/bench/limits.o $(BENCH_LIBS)
$(BUILD)/tests/schemas: $(BUILD)/tests/schemas.o $(BUILD)/libpico.a
$(BENCH) $(BUILD)/tests/schemas:
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

# Reads that fail or take long, for the tests: goes into LD_PRELOAD.
PRELOAD = $(BUILD)/tests/preload.so
$(PRELOAD): tests/preload.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -Wall -Wextra $(WERROR) -O2 -fPIC -shared -o $@ $<

units: $(UNIT) $(BENCH) $(PRELOAD) $(BUILD)/tests/schemas

# ---- tests ----

# make test T='gguf inspect' runs those only
test: all units
	BUILD_DIR=$(BUILD) tests/run $(T)

# The same tests under the sanitizers, in a build directory of their own. The
# checks that are left out for the vector kernels would take the compiler
# minutes: each unrolled load has several.
SANITIZE = $(MAKE) test BUILD=build/$@ HARDEN=no \
	EXTRA_CFLAGS='-fno-omit-frame-pointer -fno-sanitize-recover=all \
	-DPICO_NO_CONFINE' \
	VECTOR_CFLAGS=-fno-sanitize=null,alignment,object-size,pointer-overflow
check-asan:
	+$(SANITIZE) CFLAGS='-O1 -g -fsanitize=address,undefined' \
	    LDFLAGS=-fsanitize=address,undefined
check-ubsan:
	+$(SANITIZE) CFLAGS='-O1 -g -fsanitize=undefined' \
	    LDFLAGS=-fsanitize=undefined
check-tsan:
	+$(SANITIZE) CFLAGS='-O1 -g -fsanitize=thread' \
	    LDFLAGS=-fsanitize=thread
# clang's; not the kernels, whose instructions it does not all know. (Nor does
# it know fstat(): each struct stat begins as zeros.)
check-msan: T ?= gguf logits tokens opt math machine text jinja unit:chat \
	unit:sample inspect tokenize detokenize
check-msan:
	+QUICK=1 PICO_CPU=scalar $(SANITIZE) CC=clang T='$(T)' LDFLAGS=-fsanitize=memory \
	    CFLAGS='-O1 -g -fsanitize=memory'
# As on a system of which no more is known than that it is POSIX.
check-posix: T ?= gguf tokens logits opt text kv pool score resident stream \
	sample forward tokenize inspect
check-posix:
	+$(MAKE) test BUILD=build/$@ T='$(T)' EXTRA_CFLAGS=-U__linux__ WERROR=-Werror
check-valgrind: all units
	tests/valgrind $(BUILD)

# make fuzz SECONDS=600: each harness of tests/fuzz for so long. Needs clang.
SECONDS = 30
FUZZ = $(patsubst tests/fuzz/%.c,$(BUILD)/bin/%,$(wildcard tests/fuzz/*.c))
fuzzers: $(FUZZ)
$(FUZZ): $(BUILD)/bin/%: $(BUILD)/tests/fuzz/%.o $(BUILD)/libpico.a
	@mkdir -p $(@D)
	$(CC) -fsanitize=fuzzer $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
fuzz: all
	+$(MAKE) fuzzers BUILD=$(BUILD)/fuzz CC=clang HARDEN=no CFLAGS='-O1 -g \
	    -fsanitize=fuzzer-no-link,address,undefined \
	    -fno-sanitize-recover=all' LDFLAGS=-fsanitize=address,undefined \
	    VECTOR_CFLAGS=-fno-sanitize=all
	tests/fuzz/run $(BUILD) $(SECONDS)

# make schema-random N=5000: random schemas and values, pico and ajv of npm
# (node, and AJV=directory of node_modules) must judge alike.
N = 1000
schema-random: $(BUILD)/tests/schemas
	tests/schema-random $< $(N) $(SEED) || [ $$? -eq 77 ]

# Other machines, emulated: the first CPU of arm64 has dot products; those of
# x86-64 are of 2006, without AVX, and without AVX-512.
check-arm64:
	+tests/cross aarch64-linux-gnu-gcc qemu-aarch64 max cortex-a53
check-armhf:
	+tests/cross arm-linux-gnueabihf-gcc qemu-arm max
check-riscv64:
	+tests/cross riscv64-linux-gnu-gcc qemu-riscv64 rv64
check-x86-64:
	+tests/cross x86_64-linux-gnu-gcc qemu-x86_64 Conroe max

# Another C library, each program one small file; musl-tools of Debian.
check-musl:
	+MAKE_ARGS=SMALL=1 tests/cross musl-gcc none
	tests/sizes build/musl/bin

# Speed beside the limits of this machine, measured in the same minutes. Takes a
# half an hour and 7 GB; tests/bench/run says what can be chosen.
bench: all $(BENCH)
	BUILD_DIR=$(BUILD) tests/bench/run

lint:
	mandoc -T lint -W warning $(MAN)

# What reads the code, with the reasons for what it is told not to say.
lint-c:
	tests/lint-c

# ---- a first look ----

demo: all
	@echo '$$ echo "Once upon a time" | pico-tokenize |' \
	    'pico-generate -e --temp 0 | pico-detokenize'
	@export PATH="$$PWD/$(BUILD)/bin:$$PATH" \
	    PICO_MODEL=examples/model/pico-tales.gguf; \
	    echo 'Once upon a time' | pico-tokenize | \
	    pico-generate -e --temp 0 | pico-detokenize

# The small model in fewer bytes, in build/variants, with their perplexities;
# FROM: of another one, TEXT: on a text of that.
FROM = examples/model/pico-tales.gguf
TEXT =
VARIANTS = Q6_K Q4_K_M Q4_0
model-variants: all
	@mkdir -p $(BUILD)/variants
	@text='$(TEXT)'; [ -n "$$text" ] || { text=$(BUILD)/variants/text; \
	    python3 examples/model/train/grammar.py --seed 2 --bytes 99000 \
	    --stories --out "$$text"; } && \
	PATH="$$PWD/$(BUILD)/bin:$$PATH" examples/variants '$(FROM)' "$$text" \
	    $(BUILD)/variants $(VARIANTS)

# ---- installation ----

MAN = $(sort $(wildcard man/*.[1-7]))

$(BUILD)/pico.pc: Makefile $(BUILD)/places
	@mkdir -p $(@D)
	printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' \
	    'includedir=$(INCLUDEDIR)' '' 'Name: pico' \
	    'Description: GGUF language models on the CPU' \
	    "Version: $$(sed -n 's/#define PICO_VERSION "\(.*\)"/\1/p' lib/pico.h)" \
	    'Cflags: -I$${includedir}' 'Libs: -L$${libdir} -lpico -lm -pthread' \
	    >$@

D = $(DESTDIR)
install: all $(BUILD)/pico.pc
	install -d $(D)$(BINDIR) $(D)$(LIBDIR)/pkgconfig $(D)$(INCLUDEDIR) \
	    $(D)$(DATADIR)/pico $(D)$(DATADIR)/zsh/site-functions \
	    $(D)$(DATADIR)/bash-completion/completions
	install -m 755 $(PROGS:%=$(BUILD)/bin/%) $(D)$(BINDIR)
	install -m 644 $(BUILD)/libpico.a $(D)$(LIBDIR)
	install -m 644 $(BUILD)/pico.pc $(D)$(LIBDIR)/pkgconfig
	install -m 644 lib/pico.h $(D)$(INCLUDEDIR)
	install -m 644 examples/model/pico-tales.gguf \
	    $(D)$(DATADIR)/pico/default.gguf
	for m in $(MAN); do s=$${m##*.}; \
	    install -d $(D)$(MANDIR)/man$$s && \
	    install -m 644 $$m $(D)$(MANDIR)/man$$s || exit 1; done
	install -m 644 cmd/completion.zsh \
	    $(D)$(DATADIR)/zsh/site-functions/_pico
	for p in $(PROGS); do install -m 644 cmd/completion.bash \
	    $(D)$(DATADIR)/bash-completion/completions/$$p || exit 1; done

uninstall:
	rm -f $(PROGS:%=$(D)$(BINDIR)/%) $(D)$(LIBDIR)/libpico.a \
	    $(D)$(LIBDIR)/pkgconfig/pico.pc $(D)$(INCLUDEDIR)/pico.h \
	    $(D)$(DATADIR)/pico/default.gguf \
	    $(D)$(DATADIR)/zsh/site-functions/_pico \
	    $(PROGS:%=$(D)$(DATADIR)/bash-completion/completions/%)
	for m in $(MAN); do \
	    rm -f $(D)$(MANDIR)/man$${m##*.}/$${m##*/}; done
	if [ -d $(D)$(DATADIR)/pico ]; then rmdir $(D)$(DATADIR)/pico; fi

# What is committed, the same bytes each time.
VERSION = $(shell sed -n 's/.*PICO_VERSION "\(.*\)"/\1/p' lib/pico.h)
dist:
	@mkdir -p $(BUILD)
	git -c tar.umask=0022 archive --format=tar \
	    --prefix=pico-$(VERSION)/ HEAD | gzip -9n >$(BUILD)/dist.new
	mv $(BUILD)/dist.new $(BUILD)/pico-$(VERSION).tar.gz

clean:
	rm -rf build

help:
	@sed -n '1,/^$$/s/^# \{0,1\}//p' Makefile
	@echo 'Also: units bench model-variants lint lint-c uninstall clean' \
	    'check-asan check-ubsan check-tsan check-msan check-valgrind check-posix' \
	    'check-arm64 check-armhf check-riscv64 check-x86-64 check-musl fuzz' \
	    'schema-random dist'

-include $(wildcard $(BUILD)/lib/*/*.d $(BUILD)/cmd/*.d $(BUILD)/tests/*.d \
	$(BUILD)/tests/*/*.d)
.SECONDARY:
