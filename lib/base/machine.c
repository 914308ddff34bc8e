/* SPDX-License-Identifier: MIT */
/* What this machine and this process have: cores, memory, time. */
#ifdef __linux__
#define _GNU_SOURCE	/* sched_getaffinity */
#include <sched.h>
#endif
#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base.h"

#define MIB ((uint64_t)1 << 20)
#define SPARE 32	/* part of the memory there is that stays free */

#ifdef __linux__

/* The first `size` bytes of a small file of the kernel's; false if none. */
static bool
slurp(const char *path, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");
	size_t n;

	if (f == NULL)
		return false;
	n = fread(buf, 1, size - 1, f);
	buf[n] = '\0';
	(void)fclose(f);
	return n > 0;
}

/* Whether a word is in a list with commas. */
static bool
listed(const char *list, const char *word)
{
	size_t n = strlen(word);

	while (list != NULL && (strncmp(list, word, n) != 0 ||
	    (list[n] != '\0' && list[n] != ','))) {
		list = strchr(list, ',');
		list = list != NULL ? list + 1 : NULL;
	}
	return list != NULL;
}

/* The cgroup path of this process: "" at the root; v1 wants the controller.
   `root` is put before all paths of the kernel's, for the tests. */
static bool
cgroup_path(const char *root, const char *controller, char *out, size_t size)
{
	char buf[4096], file[1024], *line, *end, *names, *path;

	(void)snprintf(file, sizeof file, "%s/proc/self/cgroup", root);
	if (!slurp(file, buf, sizeof buf))
		return false;
	for (line = buf; *line != '\0'; line = end) {
		end = strchr(line, '\n');
		if (end != NULL)
			*end++ = '\0';
		else
			end = line + strlen(line);
		names = strchr(line, ':');
		path = names != NULL ? strchr(names + 1, ':') : NULL;
		if (path == NULL)
			continue;
		*path++ = '\0';
		names++;
		if (controller == NULL ? *names == '\0' :
		    listed(names, controller)) {
			(void)snprintf(out, size, "%s",
			    strcmp(path, "/") == 0 ? "" : path);
			return true;
		}
	}
	return false;
}

unsigned
machine_quota(const char *root)
{
	char path[1024], file[2300], buf[128], *end;
	long long quota, period;
	unsigned best = 0, q;

	/* v2: every level up to the root may limit */
	if (cgroup_path(root, NULL, path, sizeof path)) {
		for (;;) {
			(void)snprintf(file, sizeof file,
			    "%s/sys/fs/cgroup%s/cpu.max", root, path);
			if (slurp(file, buf, sizeof buf) &&
			    strncmp(buf, "max", 3) != 0) {
				quota = strtoll(buf, &end, 10);
				period = strtoll(end, NULL, 10);
				if (quota > 0 && period > 0) {
					q = (unsigned)MAX(quota / period, 1);
					best = best == 0 ? q : MIN(best, q);
				}
			}
			end = strrchr(path, '/');
			if (end == NULL)
				break;
			*end = '\0';
		}
	}
	if (cgroup_path(root, "cpu", path, sizeof path)) {
		/* inside a container the mount is the process's own group */
		const char *at[] = { path, "" };
		size_t i;

		for (i = 0; i < COUNT(at); i++) {
			(void)snprintf(file, sizeof file,
			    "%s/sys/fs/cgroup/cpu%s/cpu.cfs_quota_us", root,
			    at[i]);
			if (!slurp(file, buf, sizeof buf))
				continue;
			quota = strtoll(buf, NULL, 10);
			(void)snprintf(file, sizeof file,
			    "%s/sys/fs/cgroup/cpu%s/cpu.cfs_period_us", root,
			    at[i]);
			if (quota <= 0 || !slurp(file, buf, sizeof buf))
				continue;
			period = strtoll(buf, NULL, 10);
			if (period > 0) {
				q = (unsigned)MAX(quota / period, 1);
				best = best == 0 ? q : MIN(best, q);
			}
		}
	}
	return best;
}

/* Physical cores among the processors of `set`: siblings count once. */
static unsigned
physical_cores(const char *root, const cpu_set_t *set)
{
	char file[1024], buf[256];
	unsigned cores = 0;
	int cpu;

	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		long first;

		if (!CPU_ISSET(cpu, set))
			continue;
		(void)snprintf(file, sizeof file, "%s/sys/devices/system/cpu/"
		    "cpu%d/topology/thread_siblings_list", root, cpu);
		if (!slurp(file, buf, sizeof buf)) {
			cores++;
			continue;
		}
		first = strtol(buf, NULL, 10);
		/* counted at its first sibling, or here if that is not ours */
		if (first == cpu || first < 0 || first >= CPU_SETSIZE ||
		    !CPU_ISSET((int)first, set))
			cores++;
	}
	return cores;
}

uint32_t
machine_threads(const char *root)
{
	unsigned n, quota;
	cpu_set_t set;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof set, &set) != 0)
		n = (unsigned)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
	else
		n = MAX(physical_cores(root, &set), 1);
	quota = machine_quota(root);
	if (quota > 0)
		n = MIN(n, quota);
	return n;
}

/* The number after a name that begins a line; 0 if there is none. */
static uint64_t
field(const char *text, const char *name)
{
	size_t n = strlen(name);

	while (text != NULL && strncmp(text, name, n) != 0) {
		text = strchr(text, '\n');
		text = text != NULL ? text + 1 : NULL;
	}
	return text != NULL ? strtoull(text + n, NULL, 10) : 0;
}

/* The names of one version of memory cgroups. */
struct cgroup_files {
	const char *controller, *mount;
	const char *limit[2], *usage;
	const char *cache[2];	/* lines of memory.stat */
};

/* What one group still allows: its limit less what is in use there and cannot
   be dropped. Pages of files can. */
static struct room
cgroup_room(const struct cgroup_files *f, const char *dir)
{
	char file[2400], buf[4096];
	uint64_t limit = UINT64_MAX, cache = 0;
	struct room r = { .left = UINT64_MAX };
	size_t i;

	for (i = 0; i < COUNT(f->limit); i++) {
		if (f->limit[i] == NULL)
			continue;
		(void)snprintf(file, sizeof file, "%s/%s", dir, f->limit[i]);
		if (slurp(file, buf, sizeof buf) &&
		    strncmp(buf, "max", 3) != 0)
			limit = MIN(limit, strtoull(buf, NULL, 10));
	}
	if (limit == UINT64_MAX)
		return r;
	(void)snprintf(file, sizeof file, "%s/%s", dir, f->usage);
	if (slurp(file, buf, sizeof buf))
		r.held = strtoull(buf, NULL, 10);
	(void)snprintf(file, sizeof file, "%s/memory.stat", dir);
	if (slurp(file, buf, sizeof buf))
		for (i = 0; i < COUNT(f->cache); i++)
			cache += field(buf, f->cache[i]);
	r.held -= MIN(r.held, cache);
	r.left = limit - MIN(limit, r.held);
	r.group = true;
	return r;
}

static struct room
tighter(struct room a, struct room b)
{
	return b.left < a.left ? b : a;
}

/* Every level up to the root may limit; inside a container the mount may be
   the process's own group, and then only the last step finds anything. */
static struct room
cgroup_memory(const char *root, const struct cgroup_files *f)
{
	char path[1024], dir[2300], *end;
	struct room least = { .left = UINT64_MAX };

	if (!cgroup_path(root, f->controller, path, sizeof path))
		return least;
	for (;;) {
		(void)snprintf(dir, sizeof dir, "%s%s%s", root, f->mount,
		    path);
		least = tighter(least, cgroup_room(f, dir));
		end = strrchr(path, '/');
		if (end == NULL)
			return least;
		*end = '\0';
	}
}

struct room
machine_memory(const char *root)
{
	static const struct cgroup_files versions[] = {
		{ NULL, "/sys/fs/cgroup", { "memory.max", "memory.high" },
		    "memory.current", { "active_file ", "inactive_file " } },
		{ "memory", "/sys/fs/cgroup/memory",
		    { "memory.limit_in_bytes", NULL }, "memory.usage_in_bytes",
		    { "total_active_file ", "total_inactive_file " } },
	};
	struct room least = { .left = UINT64_MAX };
	char file[1024], buf[4096];
	uint64_t n;
	size_t i;

	for (i = 0; i < COUNT(versions); i++)
		least = tighter(least, cgroup_memory(root, &versions[i]));
	(void)snprintf(file, sizeof file, "%s/proc/meminfo", root);
	if (slurp(file, buf, sizeof buf)) {
		n = field(buf, "MemAvailable:");
		if (n > 0)
			least = tighter(least, (struct room){
			    .left = n * 1024 });
	}
	return least;
}

uint64_t
pico_disk_read(void)
{
	char buf[1024], *p;

	if (!slurp("/proc/self/io", buf, sizeof buf))
		return 0;
	p = strstr(buf, "\nread_bytes:");
	return p != NULL ? strtoull(p + 12, NULL, 10) : 0;
}

#else

unsigned
machine_quota(const char *root)
{
	(void)root;
	return 0;
}

struct room
machine_memory(const char *root)
{
	(void)root;
	return (struct room){ .left = UINT64_MAX };
}

uint32_t
machine_threads(const char *root)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	(void)root;
	return n > 0 ? (uint32_t)n : 1;
}

uint64_t
pico_disk_read(void)
{
	struct rusage u;

	/* blocks of 512 bytes, as far as POSIX says anything */
	return getrusage(RUSAGE_SELF, &u) == 0 ? (uint64_t)u.ru_inblock * 512 :
	    0;
}

#endif

/* Of what is left so much is used: what others take meanwhile is not known. */
static uint64_t
usable(uint64_t left)
{
	return left < UINT64_MAX ? left - left / SPARE : left;
}

uint32_t
pico_default_threads(void)
{
	return machine_threads("");
}

uint64_t
pico_memory(void)
{
	return usable(machine_memory("").left);
}

uint64_t
machine_limit(const char *root, uint64_t need)
{
	struct room r = machine_memory(root);
	uint64_t limit;

	if (!r.group || usable(r.left) >= need)
		return 0;
	/* the kernel counts pages, and some of them before they are used */
	if (!add_u64(need, need / (SPARE - 1) + r.held, &limit) ||
	    !add_u64(limit, 2 * MIB - 1, &limit))
		return 0;
	return limit / MIB * MIB;
}

uint64_t
pico_peak_memory(void)
{
	struct rusage u;

	if (getrusage(RUSAGE_SELF, &u) != 0)
		return 0;
#ifdef __APPLE__
	return (uint64_t)u.ru_maxrss;
#else
	return (uint64_t)u.ru_maxrss * 1024;
#endif
}

double
pico_seconds(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

bool
stack_is_small(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_STACK, &limit) == 0 &&
	    limit.rlim_cur < 2 << 20;
}

#ifdef __x86_64__
/* Asked for directly: what compilers offer for it are tables of 5 KB. */
static bool
ask_fma(void)
{
	const unsigned want = bit_FMA | bit_OSXSAVE | bit_AVX;
	unsigned a, b, c, d, saved, high;

	if (!__get_cpuid(1, &a, &b, &c, &d) || (c & want) != want)
		return false;
	/* bits 1 and 2: the vector registers, and their upper halves */
	__asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
	return (saved & 6) == 6;
}
#endif

bool
machine_fma(void)
{
#ifdef __x86_64__
	/* -1: no, 1: yes; asking takes a microsecond in a virtual machine */
	static atomic_int known;

	if (known == 0)
		known = ask_fma() ? 1 : -1;
	return known == 1;
#else
	return false;
#endif
}
