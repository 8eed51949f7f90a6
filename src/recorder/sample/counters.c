/* recorder/sample/counters.c - samples the process: memory, CPU, bytes, page faults, threads. */
#include "recorder/sample/counters.h"

#include <string.h>
#include <sys/resource.h>

#include "common/base/os.h"
#include "common/base/text.h"
#include "common/format/clock.h"
#include "recorder/guest/own_fds.h"
#include "recorder/sample/nvml.h"

static const char category[] = "COUNTER";
#define CATEGORY_BYTES (sizeof(category) - 1)

/* ---- a line ---- */

void pfw_counter_begin(struct pfw_counter_record *line, const char *name, uint64_t ts_ns)
{
	size_t bytes = strnlen(name, 64);

	line->head = (struct pfw_record){
		.flags = PFW_RECORD_EPOCH_NS | PFW_RECORD_COUNTER,
		.t0 = ts_ns,
		.file = (uint32_t)(bytes | CATEGORY_BYTES << 16),
	};
	memcpy(line->tail, name, bytes);
	memcpy(line->tail + bytes, category, CATEGORY_BYTES);
	line->name_bytes = line->used = (uint32_t)(bytes + CATEGORY_BYTES);
}

static void add(struct pfw_counter_record *line, const char *key, enum pfw_type type,
		const void *value)
{
	struct pfw_arg arg = { (uint16_t)strlen(key), (uint8_t)type, 0, 8 };
	unsigned char *out = line->tail + line->used;

	if (line->used + sizeof(arg) + arg.key_bytes + arg.value_bytes > sizeof(line->tail))
		return;
	memcpy(out, &arg, sizeof(arg));
	memcpy(out + sizeof(arg), key, arg.key_bytes);
	memcpy(out + sizeof(arg) + arg.key_bytes, value, arg.value_bytes);
	line->used += (uint32_t)sizeof(arg) + arg.key_bytes + arg.value_bytes;
}

void pfw_counter_u64(struct pfw_counter_record *line, const char *key, uint64_t value)
{
	add(line, key, PFW_TYPE_U64, &value);
}

void pfw_counter_f64(struct pfw_counter_record *line, const char *key, double value)
{
	add(line, key, PFW_TYPE_F64, &value);
}

unsigned pfw_counter_end(struct pfw_counter_record *line)
{
	line->head.slots = (uint8_t)(1 + (line->used + PFW_SLOT_BYTES - 1) / PFW_SLOT_BYTES);
	line->head.value[3] = line->used - line->name_bytes;
	return line->head.slots;
}

/* ---- what is sampled ---- */

/* Figures that only grow. */
enum {
	CPU_USER,
	CPU_SYSTEM,
	FAULTS_MINOR,
	FAULTS_MAJOR,
	CALLS_READ,
	CALLS_WRITTEN,
	DISK_READ,
	DISK_WRITTEN,
	TOTALS
};

struct totals {
	uint64_t at[TOTALS];
	bool has_io; /* /proc/self/io could be read */
};

enum file { IO, OWN_IO, STATM, FILES };

static const char *const paths[FILES] = {
	[IO] = "/proc/self/io",
	[OWN_IO] = "/proc/thread-self/io",
	[STATM] = "/proc/self/statm",
};

static struct counters {
	struct pfw_counters_host host;
	uint64_t period_ns;
	uint64_t due_ns;  /* MONOTONIC; 0 = no tick has come yet */
	uint64_t base_ns; /* when `base` was taken; 0 = not yet */
	struct totals base;
	struct totals own; /* the sampling thread's share of it */
	int32_t tid;	   /* of that thread */
	int fd[FILES];	   /* descriptor + 1, in that thread's table; 0 = not open */
} counters;

static uint64_t microseconds(const struct timeval *time)
{
	return (uint64_t)time->tv_sec * 1000000 + (uint64_t)time->tv_usec;
}

static void read_usage(struct totals *totals, int who)
{
	struct rusage usage = { .ru_minflt = 0 };

	pfw_syscall6(SYS_getrusage, who, (long)&usage, 0, 0, 0, 0);
	totals->at[CPU_USER] = microseconds(&usage.ru_utime);
	totals->at[CPU_SYSTEM] = microseconds(&usage.ru_stime);
	totals->at[FAULTS_MINOR] = (uint64_t)usage.ru_minflt;
	totals->at[FAULTS_MAJOR] = (uint64_t)usage.ru_majflt;
}

/* The figure after `key` in a file of "key: figure" lines. */
static uint64_t figure_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	uint64_t value = 0;

	if (at)
		pfw_text_read_u64(at + strlen(key), &value);
	return value;
}

/* Read a small file of /proc whole.  If the thread has a descriptor table of its own the file stays
 * open in it (opening costs more than reading) and goes away with the table. */
static size_t look_at(enum file file, char *text, size_t room)
{
	int fd = counters.fd[file] ? counters.fd[file] - 1 : pfw_os_open(paths[file], O_RDONLY, 0);
	ssize_t bytes = fd < 0 ? 0 : pfw_os_pread(fd, text, room - 1, 0);

	if (fd >= 0 && !atomic_load(&pfw_own_fds_shared))
		counters.fd[file] = fd + 1;
	else if (fd >= 0)
		pfw_os_close(fd);
	if (bytes < 0)
		bytes = 0;
	text[bytes] = '\0';
	return (size_t)bytes;
}

/* Return the length of the file's text, which the kernel counts as bytes read; 0: unreadable. */
static size_t read_io(struct totals *totals, enum file file)
{
	char text[512];
	size_t bytes = look_at(file, text, sizeof(text));

	totals->has_io = bytes > 0;
	totals->at[CALLS_READ] = figure_of(text, "rchar: ");
	totals->at[CALLS_WRITTEN] = figure_of(text, "wchar: ");
	totals->at[DISK_READ] = figure_of(text, "\nread_bytes: ");
	totals->at[DISK_WRITTEN] = figure_of(text, "\nwrite_bytes: ");
	return bytes;
}

/* Of the process and of this thread, at the same moment. */
static void read_totals(struct totals *all, struct totals *own)
{
	size_t looked;

	memset(all, 0, sizeof(*all));
	memset(own, 0, sizeof(*own));
	read_usage(all, RUSAGE_SELF);
	read_usage(own, 1 /* RUSAGE_THREAD */);
	looked = read_io(all, IO);
	if (all->has_io)
		read_io(own, OWN_IO);
	/* This thread's bytes include the text of the first file; the process's do not yet. */
	if (own->at[CALLS_READ] >= looked)
		own->at[CALLS_READ] -= looked;
}

/* The growth since the base without this thread's; the sample becomes the next base. */
static void take_growth(struct totals *growth)
{
	struct totals all, own;

	read_totals(&all, &own);
	for (unsigned i = 0; i < TOTALS; i++) {
		int64_t grown = (int64_t)(all.at[i] - counters.base.at[i]) -
				(int64_t)(own.at[i] - counters.own.at[i]);

		growth->at[i] = grown > 0 ? (uint64_t)grown : 0;
	}
	growth->has_io = all.has_io && own.has_io;
	counters.base = all;
	counters.own = own;
}

/* ---- lines of it ---- */

static void put(struct pfw_counter_record *line)
{
	unsigned slots = pfw_counter_end(line);

	line->head.template = counters.host.template;
	counters.host.put(&line->head, slots);
}

static void put_pair(const char *name, uint64_t ts_ns, const char *const keys[2],
		     const uint64_t *values)
{
	struct pfw_counter_record line;

	pfw_counter_begin(&line, name, ts_ns);
	pfw_counter_u64(&line, keys[0], values[0]);
	pfw_counter_u64(&line, keys[1], values[1]);
	put(&line);
}

/* In percent of one CPU, rounded down to a tenth. */
static double percent(uint64_t used_us, uint64_t elapsed_ns)
{
	return elapsed_ns ? (double)(used_us * 1000000 / elapsed_ns) / 10 : 0;
}

static void put_cpu(const struct totals *growth, uint64_t ts_ns, uint64_t elapsed_ns)
{
	struct pfw_counter_record line;

	pfw_counter_begin(&line, "cpu", ts_ns);
	pfw_counter_f64(&line, "user", percent(growth->at[CPU_USER], elapsed_ns));
	pfw_counter_f64(&line, "system", percent(growth->at[CPU_SYSTEM], elapsed_ns));
	put(&line);
}

static void put_growth(const struct totals *growth, uint64_t ts_ns, uint64_t elapsed_ns)
{
	static const char *const faults[] = { "minor", "major" };
	static const char *const bytes[] = { "read", "written" };

	put_cpu(growth, ts_ns, elapsed_ns);
	put_pair("page faults", ts_ns, faults, &growth->at[FAULTS_MINOR]);
	if (!growth->has_io)
		return;
	put_pair("io", ts_ns, bytes, &growth->at[CALLS_READ]);
	put_pair("storage", ts_ns, bytes, &growth->at[DISK_READ]);
}

static void put_one(const char *name, uint64_t ts_ns, const char *key, uint64_t value)
{
	struct pfw_counter_record line;

	pfw_counter_begin(&line, name, ts_ns);
	pfw_counter_u64(&line, key, value);
	put(&line);
}

/* The second figure of statm is the resident pages.  A directory has two links and one for each
 * subdirectory: in /proc/self/task these are the threads. */
static void put_now(uint64_t ts_ns)
{
	uint64_t ours = counters.host.threads(), pages, threads;
	struct stat task;
	char text[128];
	const char *at;

	look_at(STATM, text, sizeof(text));
	at = strchr(text, ' ');
	if (at && pfw_text_read_u64(at + 1, &pages))
		put_one("memory", ts_ns, "rss", pages * (uint64_t)sysconf(_SC_PAGESIZE));
	if (pfw_syscall6(SYS_newfstatat, AT_FDCWD, (long)"/proc/self/task", (long)&task, 0, 0, 0))
		return;
	threads = task.st_nlink - 2;
	put_one("threads", ts_ns, "count", threads > ours ? threads - ours : 0);
}

static void sample(uint64_t now_ns)
{
	uint64_t ts_ns = pfw_clock_ns(CLOCK_REALTIME), base_ns = counters.base_ns;
	int32_t tid = pfw_os_gettid();
	struct totals growth;

	if (counters.tid != tid) { /* another thread starts at 0 with a table of its own */
		memset(&counters.own, 0, sizeof(counters.own));
		memset(counters.fd, 0, sizeof(counters.fd));
	}
	counters.tid = tid;
	counters.base_ns = now_ns;
	take_growth(&growth);
	if (!base_ns)
		return; /* the first sample is only the base */
	put_now(ts_ns);
	put_growth(&growth, ts_ns, now_ns - base_ns);
	if (counters.host.gpu())
		pfw_nvml_sample(ts_ns, put);
}

void pfw_counters_init(const struct pfw_counters_host *host, uint64_t period_ns)
{
	counters = (struct counters){ .host = *host, .period_ns = period_ns };
}

void pfw_counters_forked(void)
{
	const struct pfw_counters_host host = counters.host;

	pfw_counters_init(&host, counters.period_ns);
	pfw_nvml_forked();
}

uint64_t pfw_counters_tick(bool on)
{
	uint64_t now_ns = pfw_clock_ns(CLOCK_MONOTONIC);

	if (!counters.period_ns)
		return 0;
	if (now_ns < counters.due_ns)
		return counters.due_ns - now_ns;
	/* A missed sample is not made up for. */
	counters.due_ns += counters.period_ns;
	if (counters.due_ns <= now_ns)
		counters.due_ns = now_ns + counters.period_ns;
	if (on)
		sample(now_ns);
	else
		counters.base_ns = 0;
	return counters.due_ns - now_ns;
}
