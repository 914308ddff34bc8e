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

# -ffp-contract=off: the same bits on every machine (DESIGN: exactness).
# No SIMD flags: vector code carries its own, chosen when the program runs.
ALL_CFLAGS = -std=c11 -D_POSIX_C_SOURCE=200809L -D_FILE_OFFSET_BITS=64 \
	-ffp-contract=off -Wall -Wextra -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wvla -pthread $(WERROR) $(CFLAGS) $(EXTRA_CFLAGS)
ALL_LDFLAGS = -pthread $(LDFLAGS) $(EXTRA_LDFLAGS)
LIBS = -lm

PROGS = $(patsubst cmd/pico-%.c,pico-%,$(wildcard cmd/pico-*.c))
CMD_OBJ = $(patsubst %.c,$(BUILD)/%.o,$(filter-out cmd/pico-%.c, \
	$(wildcard cmd/*.c)))
LIB_SRC = $(sort $(wildcard lib/*/*.c))
LIB_OBJ = $(LIB_SRC:%.c=$(BUILD)/%.o)
UNIT = $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(wildcard tests/unit/test_*.c))

.PHONY: all clean help units
all: $(PROGS:%=$(BUILD)/bin/%) $(BUILD)/libpico.a

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/cmd/cmd.o: EXTRA_CFLAGS += -DPICO_DATADIR='"$(DATADIR)/pico"'

$(BUILD)/libpico.a: $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $(LIB_OBJ)

$(BUILD)/bin/pico-%: $(BUILD)/cmd/pico-%.o $(CMD_OBJ) $(BUILD)/libpico.a
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(BUILD)/libpico.a $(LIBS)

$(BUILD)/unit/%: $(BUILD)/tests/unit/%.o $(BUILD)/libpico.a
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $< $(BUILD)/libpico.a $(LIBS)

units: $(UNIT)

clean:
	rm -rf build

-include $(wildcard $(BUILD)/lib/*/*.d $(BUILD)/cmd/*.d $(BUILD)/tests/*/*.d)
.SECONDARY:
