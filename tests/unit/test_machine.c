/* SPDX-License-Identifier: MIT */
/* Limits of memory and processors as the kernel tells them, from made-up files. */
#ifdef __linux__
#define _GNU_SOURCE	/* CPU_ISSET */
#include <sched.h>
#endif
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../lib/base/base.h"

static int n_tests, n_failed;
static char root[] = "/tmp/pico-machine.XXXXXX";

static void
ok(bool good, const char *what)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++n_tests, what);
	n_failed += !good;
}

/* Writes root/path, making the directories. */
static void
put(const char *path, const char *text)
{
	char full[600];
	size_t i, n;
	FILE *f;

	n = (size_t)snprintf(full, sizeof full, "%s%s", root, path);
	for (i = strlen(root) + 1; i < n; i++) {
		if (full[i] != '/')
			continue;
		full[i] = '\0';
		if (mkdir(full, 0700) < 0 && errno != EEXIST)
			exit(2);
		full[i] = '/';
	}
	f = fopen(full, "w");
	if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
		exit(2);
}

static void
clear(void)
{
	char command[100];

	(void)snprintf(command, sizeof command, "rm -rf %s", root);
	if (system(command) != 0 || mkdir(root, 0700) < 0)
		exit(2);
}

/* Processors that are all siblings of one another are one core. */
static void
check_siblings(void)
{
#ifdef __linux__
	char path[100], text[20];
	unsigned n = 0;
	cpu_set_t set;
	int cpu, first = -1;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof set, &set) != 0) {
		printf("ok %d - # skip no affinity\n", ++n_tests);
		return;
	}
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &set))
			continue;
		n++;
		first = first < 0 ? cpu : first;
		(void)snprintf(path, sizeof path, "/sys/devices/system/cpu/"
		    "cpu%d/topology/thread_siblings_list", cpu);
		(void)snprintf(text, sizeof text, "%d-1023\n", first);
		put(path, text);
	}
	ok(machine_threads(root) == 1, "siblings count once");
	clear();
	ok(machine_threads(root) == n, "processors, if nothing is known");
#endif
}

int
main(void)
{
	uint64_t limit;
	char text[40];

	if (mkdtemp(root) == NULL)
		return 2;
	ok(machine_memory(root).left == UINT64_MAX, "nothing is known");
	put("/proc/meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\n"
	    "MemAvailable:    5000 kB\n");
	ok(machine_memory(root).left == 5000 * 1024, "what the machine has");

	put("/proc/self/cgroup", "0::/a/b\n");
	put("/sys/fs/cgroup/a/b/memory.max", "max\n");
	put("/sys/fs/cgroup/a/b/memory.high", "max\n");
	put("/sys/fs/cgroup/a/memory.max", "max\n");
	ok(machine_memory(root).left == 5000 * 1024, "v2: no limit");
	put("/sys/fs/cgroup/a/b/memory.max", "3000000\n");
	ok(machine_memory(root).left == 3000000, "v2: a limit");
	put("/sys/fs/cgroup/a/b/memory.high", "2500000\n");
	ok(machine_memory(root).left == 2500000, "v2: memory.high");
	put("/sys/fs/cgroup/a/memory.max", "1000000\n");
	ok(machine_memory(root).left == 1000000, "v2: a limit further up");
	put("/sys/fs/cgroup/a/memory.current", "700000\n");
	put("/sys/fs/cgroup/a/memory.stat", "anon 100\nfile 650000\n"
	    "inactive_anon 50\nactive_anon 50\n"
	    "inactive_file 400000\nactive_file 200000\n");
	ok(machine_memory(root).left == 900000, "v2: what others hold there");
	put("/sys/fs/cgroup/a/memory.current", "5000000\n");
	ok(machine_memory(root).left == 0, "v2: nothing left");

	clear();
	put("/proc/self/cgroup", "4:cpu,memory:/x\n3:memory_other:/y\n"
	    "0::/\n");
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes",
	    "9223372036854771712\n");
	ok(machine_memory(root).left == 9223372036854771712u, "v1: no limit");
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n");
	ok(machine_memory(root).left == 2000000, "v1: a container's own mount");
	clear();
	put("/proc/self/cgroup", "4:memory:/x\n");
	put("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1000000\n");
	put("/sys/fs/cgroup/memory/x/memory.usage_in_bytes", "300000\n");
	put("/sys/fs/cgroup/memory/x/memory.stat", "active_file 1\n"
	    "total_inactive_file 100000\ntotal_active_file 50000\n");
	ok(machine_memory(root).left == 850000, "v1: what others hold there");
	ok(machine_limit(root, 820000) == 0, "v1: the limit will do");
	limit = machine_limit(root, 100000000);
	ok(limit > 0, "v1: a limit that would do");
	(void)snprintf(text, sizeof text, "%" PRIu64 "\n", limit);
	put("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", text);
	ok(machine_limit(root, 100000000) == 0, "v1: it does");
	put("/sys/fs/cgroup/memory/x/memory.usage_in_bytes", "700000000\n");
	limit = machine_limit(root, 100000000);
	(void)snprintf(text, sizeof text, "%" PRIu64 "\n", limit);
	put("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", text);
	ok(limit > 700000000 && machine_limit(root, 100000000) == 0,
	    "v1: one that would do if others hold more than it is");
	ok(machine_limit(root, UINT64_MAX) == 0, "no limit would do");
	put("/proc/meminfo", "MemAvailable:    50 kB\n");
	ok(machine_limit(root, 100000000) == 0, "it is not the group");

	clear();
	ok(machine_quota(root) == 0, "nothing is known of processors");
	put("/proc/self/cgroup", "0::/a/b\n");
	put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	ok(machine_quota(root) == 0, "v2: no quota");
	put("/sys/fs/cgroup/a/b/cpu.max", "390000 100000\n");
	ok(machine_quota(root) == 3, "v2: a quota is rounded down");
	put("/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
	ok(machine_quota(root) == 1, "v2: half a processor further up");
	clear();
	put("/proc/self/cgroup", "4:cpu,cpuacct:/x\n");
	put("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
	put("/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
	ok(machine_quota(root) == 0, "v1: no quota");
	put("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "250000\n");
	ok(machine_quota(root) == 2, "v1: a quota");
	clear();
	check_siblings();
	put("/proc/self/cgroup", "0::/a\n");
	put("/sys/fs/cgroup/a/cpu.max", "190000 100000\n");
	ok(machine_threads(root) == 1, "the quota bounds the threads");
	clear();
	(void)rmdir(root);
	printf("1..%d\n", n_tests);
	return n_failed > 0;
}
