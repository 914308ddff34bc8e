/* SPDX-License-Identifier: MIT */
/*
 * Least privilege: a model file that finds a fault in us shall have nowhere to
 * go. On Linux a seccomp filter, seccomp(2), refuses with EPERM what no program
 * of ours ever asks for; where there is none, nothing changes. What could not be
 * refused without harm to some C library, debugger or profiler is let through:
 * this is a list of what is forbidden.
 */
#ifdef __linux__
#define _GNU_SOURCE	/* syscall */
#endif
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

#include "base.h"

#if defined(__linux__) && !defined(PICO_NO_CONFINE)
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#if defined(__x86_64__) && defined(__LP64__)
#define AUDIT_ARCH 0xc000003e
#elif defined(__aarch64__) && defined(__LP64__)
#define AUDIT_ARCH 0xc00000b7
#endif
#endif

#if defined(AUDIT_ARCH) && defined(SYS_seccomp)

/* The kernel's own headers are not everywhere: these are fixed for ever, from
   seccomp(2), bpf(4) and <linux/filter.h>. */
struct instruction {
	uint16_t code;
	uint8_t yes, no;	/* instructions to pass over */
	uint32_t k;
};
struct program {
	unsigned short n;
	const struct instruction *i;
};
struct call {			/* struct seccomp_data */
	int32_t number;
	uint32_t arch;
	uint64_t address, arg[6];
};
#define LOAD 0x20		/* a word of struct call */
#define IF_EQUAL 0x15
#define IF_AT_LEAST 0x35
#define IF_ANY_BIT 0x45
#define END 0x06
#define ALLOW 0x7fff0000u
#define REFUSE(e) (0x00050000u | (e))
#define FILTER 1		/* SECCOMP_SET_MODE_FILTER */
/* SECCOMP_FILTER_FLAG_SPEC_ALLOW: without it old kernels slow us down */
#define NO_SLOWER 4

#define FIELD(f) { LOAD, 0, 0, offsetof(struct call, f) }
/* a call that is refused whatever it is told */
#define NEVER(nr) { IF_EQUAL, 0, 1, (nr) }, { END, 0, 0, REFUSE(EPERM) }
/* refused if argument `a` has any of these bits; the number is loaded again */
#define NOT_WITH(nr, a, bits) \
	{ IF_EQUAL, 0, 4, (nr) }, FIELD(arg[a]), \
	{ IF_ANY_BIT, 0, 1, (bits) }, { END, 0, 0, REFUSE(EPERM) }, \
	FIELD(number)

/* Some emulators hand a filter on to a kernel of another machine, for which it
   would refuse anything. So first one that shows who reads it. */
static const struct instruction probe[] = {
	FIELD(arch),
	{ IF_EQUAL, 1, 0, AUDIT_ARCH }, { END, 0, 0, ALLOW },
	FIELD(number),
	{ IF_EQUAL, 0, 1, SYS_personality }, { END, 0, 0, REFUSE(EXDEV) },
	{ END, 0, 0, ALLOW }
};

static const struct instruction always[] = {
	/* calls by another table: of 32 bits, or x32 */
	FIELD(arch),
	{ IF_EQUAL, 1, 0, AUDIT_ARCH }, { END, 0, 0, REFUSE(EPERM) },
	FIELD(number),
#ifdef __x86_64__
	{ IF_AT_LEAST, 0, 1, 0x40000000 }, { END, 0, 0, REFUSE(EPERM) },
#endif
	/* other programs, other processes; threads are made by clone, which
	   C libraries fall back to */
	NEVER(SYS_execve), NEVER(SYS_execveat),
#ifdef SYS_fork
	NEVER(SYS_fork), NEVER(SYS_vfork),
#endif
#ifdef SYS_clone3
	{ IF_EQUAL, 0, 1, SYS_clone3 }, { END, 0, 0, REFUSE(ENOSYS) },
#endif
	{ IF_EQUAL, 0, 4, SYS_clone }, FIELD(arg[0]),
	{ IF_ANY_BIT, 1, 0, 0x10000 /* CLONE_THREAD */ },
	{ END, 0, 0, REFUSE(EPERM) }, FIELD(number),
	NEVER(SYS_ptrace), NEVER(SYS_process_vm_readv),
	NEVER(SYS_process_vm_writev), NEVER(SYS_setns), NEVER(SYS_unshare),
	/* the network, and descriptors by way of it */
	NEVER(SYS_socket), NEVER(SYS_socketpair), NEVER(SYS_connect),
	NEVER(SYS_bind), NEVER(SYS_listen), NEVER(SYS_sendto),
	NEVER(SYS_sendmsg), NEVER(SYS_sendmmsg), NEVER(SYS_recvmsg),
	/* ways around a filter, and doors into the kernel */
	NEVER(SYS_bpf), NEVER(SYS_perf_event_open), NEVER(SYS_keyctl),
	NEVER(SYS_add_key), NEVER(SYS_request_key), NEVER(SYS_mount),
#ifdef SYS_io_uring_setup
	NEVER(SYS_io_uring_setup),
#endif
#ifdef SYS_userfaultfd
	NEVER(SYS_userfaultfd),
#endif
	/* words put into the mouth of a terminal's user */
	{ IF_EQUAL, 0, 5, SYS_ioctl }, FIELD(arg[1]),
	{ IF_EQUAL, 1, 0, 0x5412 /* TIOCSTI */ },
	{ IF_EQUAL, 0, 1, 0x541c /* TIOCLINUX */ },
	{ END, 0, 0, REFUSE(EPERM) }, FIELD(number),
	/* code that was data */
	NOT_WITH(SYS_mmap, 2, PROT_EXEC), NOT_WITH(SYS_mprotect, 2, PROT_EXEC),
	{ END, 0, 0, ALLOW }
};

static const struct instruction no_writes[] = {
	FIELD(number),
#define WRITES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)
#ifdef SYS_open
	NOT_WITH(SYS_open, 1, WRITES), NEVER(SYS_creat), NEVER(SYS_rename),
	NEVER(SYS_link), NEVER(SYS_symlink), NEVER(SYS_unlink),
	NEVER(SYS_mkdir), NEVER(SYS_rmdir), NEVER(SYS_mknod),
	NEVER(SYS_chmod), NEVER(SYS_chown), NEVER(SYS_lchown),
#endif
	NOT_WITH(SYS_openat, 2, WRITES),
#ifdef SYS_openat2	/* its flags are out of sight */
	{ IF_EQUAL, 0, 1, SYS_openat2 }, { END, 0, 0, REFUSE(ENOSYS) },
#endif
#ifdef SYS_renameat
	NEVER(SYS_renameat),
#endif
#ifdef SYS_renameat2
	NEVER(SYS_renameat2),
#endif
	NEVER(SYS_linkat), NEVER(SYS_symlinkat), NEVER(SYS_unlinkat),
	NEVER(SYS_mkdirat), NEVER(SYS_mknodat), NEVER(SYS_fchmodat),
	NEVER(SYS_fchownat), NEVER(SYS_fchmod), NEVER(SYS_fchown),
	NEVER(SYS_truncate), NEVER(SYS_setxattr), NEVER(SYS_lsetxattr),
	NEVER(SYS_fsetxattr), NEVER(SYS_utimensat),
	{ END, 0, 0, ALLOW }
};

/* Of several filters each may refuse. */
static bool
add(const struct instruction *i, size_t n)
{
	struct program p = { (unsigned short)n, i };

	return syscall(SYS_seccomp, FILTER, NO_SLOWER, &p) == 0;
}

bool
pico_confine(bool writes)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	    add(probe, COUNT(probe)) &&
	    syscall(SYS_personality, 0xffffffff) == -1 && errno == EXDEV &&
	    add(always, COUNT(always)) &&
	    (writes || add(no_writes, COUNT(no_writes)));
}

#else

bool
pico_confine(bool writes)
{
	(void)writes;
	return false;
}

#endif
