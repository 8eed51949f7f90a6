/* test_live.c - what a process has recorded and not yet written: read as `pfw repair` would write it,
 * with nothing changed, and of a process that goes on never twice and never by halves.
 */
#include "store/recover/unwritten.h"

#include <errno.h>
#include <pfw/pfw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "recover_world.h"
#include "store/read/scan.h"
#include "store/recover/recover.h"
#include "store/traces/paths.h"

#define THREADS 4
/* Of looking at a process that works; each reads all that the rounds before have left, and an emulated
 * processor takes minutes for as many. */
#define ROUNDS 150
#define ROUNDS_EMULATED 50
#define EVENTS 300 /* of a thread at most, for each look */

static const char *dirs[2];
static const struct pfw_spool_places spools = { .dir = dirs };

/* All lines of a trace and of what is behind it, each with its '\n'; counts what is no line. */
static char *read_all(const char *path, struct pfw_unwritten *live, unsigned *problems)
{
	enum pfw_scan_result result;
	struct pfw_scan scan;
	size_t size;
	char *text;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(pfw_unwritten_scan(&scan, path, live), 0);
	*problems = 0;
	while ((result = pfw_scan_next(&scan)) != PFW_SCAN_END) {
		if (result != PFW_SCAN_LINE || scan.entry.kind != PFW_ENTRY_EVENT) {
			print_message("%s: %.*s\n", path, (int)scan.bytes, scan.text);
			++*problems;
			continue;
		}
		fwrite(scan.text, 1, scan.bytes, out);
		fputc('\n', out);
	}
	pfw_scan_close(&scan);
	fclose(out);
	return text;
}

static int open_live(struct world *world, struct pfw_unwritten **live)
{
	char why[PFW_LIVE_WHY_BYTES];

	dirs[0] = world->dir;
	return pfw_unwritten_open(live, world->builder.trace, &spools, why);
}

static uint64_t sum_of(const char *path)
{
	FILE *file = fopen(path, "r");
	uint64_t sum = 1469598103934665603u;
	int c;

	assert_non_null(file);
	while ((c = fgetc(file)) != EOF)
		sum = (sum ^ (unsigned)c) * 1099511628211u;
	fclose(file);
	return sum;
}

/* What live.h gives of a dead process is what recovery then writes; and it has changed nothing. */
static void same_as_recovered(struct world *world, uint64_t offset)
{
	uint64_t spool_sum = sum_of(world->builder.path), trace_sum = 0;
	bool made = exists(world->builder.trace);
	struct pfw_unwritten *live;
	unsigned problems;
	char *text;

	if (made)
		trace_sum = sum_of(world->builder.trace);
	assert_int_equal(open_live(world, &live), 0);
	assert_int_equal(pfw_unwritten_offset(live), offset);
	assert_false(pfw_unwritten_runs(live));
	assert_int_equal(pfw_unwritten_pid(live), builder_header(&world->builder)->pid);
	assert_string_equal(pfw_unwritten_spool(live), world->builder.path);
	text = read_all(world->builder.trace, live, &problems);
	assert_int_equal(problems, 0);
	pfw_unwritten_close(live);
	assert_int_equal(sum_of(world->builder.path), spool_sum);
	assert_int_equal(exists(world->builder.trace), made);
	if (made)
		assert_int_equal(sum_of(world->builder.trace), trace_sum);
	recover(world, PFW_RECOVER_DONE);
	read_trace(world, world->result.trace);
	assert_string_equal(text, world->text);
	free(text);
	assert_int_equal(open_live(world, &live), -ENOENT);
}

static void good_and_rings(struct world *world, bool compressed)
{
	uint64_t offset;
	uint32_t name;

	start(world, compressed);
	name = builder_string(&world->builder, "/data/a \"file\"");
	offset = make_good(world, 5, "{\"id\":7,\"na", 8);
	builder_pread(stretch_of(world, 0, 0, 5, 9), 9, name, NULL);
	builder_torn(stretch_of(world, 1, 0, 10, 12));
	builder_header(&world->builder)->lost[PFW_LOST_FULL].count = 3;
	assert_true(builder_write(&world->builder));
	same_as_recovered(world, offset);
}

static void test_dead(void **state)
{
	good_and_rings(*state, false);
}

static void test_dead_compressed(void **state)
{
	good_and_rings(*state, true);
}

static void test_dead_without_a_file(void **state)
{
	struct world *world = *state;

	start(world, false);
	builder_header(&world->builder)->file_made = 0;
	stretch_of(world, 0, 0, 0, 4);
	assert_true(builder_write(&world->builder));
	same_as_recovered(world, 0);
}

/* More than one piece of text, and rings that go round. */
static void test_dead_with_much(void **state)
{
	struct world *world = *state;
	struct pfw_ring_chunk *stretch;
	uint64_t offset;

	start(world, false);
	offset = make_good(world, 1, "", 3);
	stretch = stretch_of(world, 0, 0, 1, 8001);
	stretch->saved_tail[0] = stretch->saved_tail[1] += 500;
	stretch->tail += 500;
	for (uint64_t seq = 8001; seq < 8500; seq++)
		builder_pread(stretch, seq, 0, "");
	stretch_of(world, 0, 1, 8500, 8600);
	assert_true(builder_write(&world->builder));
	same_as_recovered(world, offset);
}

/* The last line break of the good part was blanked by a writer that went on behind it. */
static void test_blanked_line_break(void **state)
{
	struct world *world = *state;
	struct pfw_unwritten *live;
	unsigned problems;
	uint64_t offset;
	char *text;
	FILE *file;

	start(world, false);
	offset = make_good(world, 2, "   \n{\"id\":4", 3);
	file = fopen(world->builder.trace, "r+");
	fseek(file, (long)offset - 1, SEEK_SET);
	fputc(' ', file);
	fclose(file);
	stretch_of(world, 0, 0, 2, 5);
	assert_true(builder_write(&world->builder));
	assert_int_equal(open_live(world, &live), 0);
	text = read_all(world->builder.trace, live, &problems);
	pfw_unwritten_close(live);
	assert_int_equal(problems, 0);
	assert_null(strstr(text, "\"id\":4,\"name\":\"pread"));
	assert_non_null(strstr(text, "\n{\"id\":4,\"name\":\"thread_name\""));
	assert_non_null(strstr(text, "\"reason\":\"recovered\""));
	free(text);
}

static void test_finished(void **state)
{
	struct world *world = *state;
	struct pfw_unwritten *live;

	start(world, false);
	make_good(world, 2, "", 3);
	stretch_of(world, 0, 0, 2, 5);
	builder_header(&world->builder)->state = PFW_SPOOL_DONE;
	assert_true(builder_write(&world->builder));
	assert_int_equal(open_live(world, &live), -ENOENT);
}

static void test_of_another_process(void **state)
{
	struct world *world = *state;
	struct pfw_unwritten *live;

	start(world, false);
	make_good(world, 2, "", 3);
	stretch_of(world, 0, 0, 2, 5);
	builder_header(&world->builder)->start_ns++;
	assert_true(builder_write(&world->builder));
	assert_int_equal(open_live(world, &live), -ENOENT);
	/* A name that is taken: its own will be another. */
	builder_header(&world->builder)->start_ns--;
	builder_header(&world->builder)->file_made = 0;
	assert_true(builder_write(&world->builder));
	assert_int_equal(open_live(world, &live), -ENOENT);
}

static void test_of_another_host(void **state)
{
	struct world *world = *state;
	char why[PFW_LIVE_WHY_BYTES];
	struct pfw_unwritten *live;

	start(world, false);
	make_good(world, 2, "", 3);
	strcpy(builder_header(&world->builder)->host, "elsewhere");
	assert_true(builder_write(&world->builder));
	dirs[0] = world->dir;
	assert_int_equal(pfw_unwritten_open(&live, world->builder.trace, &spools, why), -EREMOTE);
	assert_non_null(strstr(why, "elsewhere"));
}

static void test_of_another_user(void **state)
{
	struct world *world = *state;
	char why[PFW_LIVE_WHY_BYTES];
	struct pfw_unwritten *live;

	if (geteuid())
		skip();
	start(world, false);
	make_good(world, 2, "", 3);
	stretch_of(world, 0, 0, 2, 5);
	assert_true(builder_write(&world->builder));
	assert_int_equal(chown(world->builder.path, 12345, 12345), 0);
	dirs[0] = world->dir;
	/* Anybody can put such a file there: it is none of this trace. */
	assert_int_equal(pfw_unwritten_open(&live, world->builder.trace, &spools, why), -ENOENT);
}

static void test_unbegun_paths(void **state)
{
	struct world *world = *state;
	struct pfw_paths paths = { 0 };

	start(world, false);
	builder_header(&world->builder)->file_made = 0;
	stretch_of(world, 0, 0, 0, 4);
	assert_true(builder_write(&world->builder));
	dirs[0] = world->dir;
	assert_int_equal(pfw_unwritten_paths(&paths, world->dir, dirs), 0);
	assert_int_equal(paths.count, 1);
	assert_string_equal(paths.path[0], world->builder.trace);
	pfw_paths_free(&paths);
}

/* ---- a process that goes on ---- */

/* What the child says of itself, in memory that the test sees, too. */
struct progress {
	atomic_ulong made[THREADS]; /* events whose call has returned */
	atomic_ulong asked;	    /* looks at it so far */
	uint64_t start_time;	    /* as it sees itself */
};

struct work {
	struct progress *progress;
	unsigned thread;
};

/* Numbered events (the number is their time), some of several slots; a few at each look, so that the
 * writer is met in all states. */
static void *make_events(void *arg)
{
	const struct work *work = arg;
	struct progress *progress = work->progress;
	char category[16], text[200];

	snprintf(category, sizeof(category), "w%u", work->thread);
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (unsigned long seq = 0;; seq++) {
		while (seq / EVENTS > atomic_load(&progress->asked))
			usleep(100);
		pfw_event(seq % 7 ? "short" : text, category, 1000 * (seq + 1), 1);
		atomic_store(&progress->made[work->thread], seq + 1);
		if (seq % 64 == 63)
			usleep(50);
	}
	return NULL;
}

static void work(struct world *world, struct progress *progress, const char *file)
{
	struct work work[THREADS];
	struct pfw_process self = { 0 };
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* of a test that has failed */
	pfw_process_read(&self, getpid());
	progress->start_time = self.start_time;
	clearenv();
	setenv("PFW_SPOOL_DIR", world->dir, 1);
	setenv("DFTRACER_LOG_FILE", file, 1);
	setenv("PFW_RING_MAX", "64KiB", 1);
	setenv("PFW_FLUSH_MS", "1", 1);
	setenv("PFW_QUIET", "1", 1);
	if (pfw_start(NULL))
		_exit(1);
	for (unsigned i = 0; i < THREADS; i++) {
		work[i] = (struct work){ progress, i };
		pthread_create(&thread, NULL, make_events, &work[i]);
	}
	for (;;)
		pause();
}

/* Each thread's events from the first on, none left out, none twice; at least `made` of them. */
static void check_prefixes(const char *path, struct pfw_unwritten *live, const unsigned long *made)
{
	unsigned long next[THREADS] = { 0 };
	enum pfw_scan_result result;
	uint64_t last_id = 0;
	struct pfw_scan scan;

	assert_int_equal(pfw_unwritten_scan(&scan, path, live), 0);
	while ((result = pfw_scan_next(&scan)) != PFW_SCAN_END) {
		assert_int_equal(result, PFW_SCAN_LINE);
		assert_int_equal(scan.entry.kind, PFW_ENTRY_EVENT);
		assert_true(scan.entry.id > last_id);
		last_id = scan.entry.id;
		if (scan.line == 1)
			assert_true(pfw_scan_is(&scan, "process"));
		if (*scan.entry.cat.at != 'w')
			continue;
		assert_int_equal(scan.entry.ts_ns, 1000 * ++next[scan.entry.cat.at[1] - '0']);
	}
	pfw_scan_close(&scan);
	for (unsigned i = 0; i < THREADS; i++)
		assert_true(next[i] >= made[i]);
}

static void take_progress(struct progress *progress, unsigned long *made)
{
	for (unsigned i = 0; i < THREADS; i++)
		made[i] = atomic_load(&progress->made[i]);
}

/* qemu-user makes up a /proc/self/stat: whoever looks from outside sees another process. */
static bool looks_alike(pid_t pid, const struct progress *progress)
{
	struct pfw_process process = { 0 };

	return !pfw_process_read(&process, pid) && process.start_time == progress->start_time;
}

static void look_while_it_works(struct world *world, const char *suffix)
{
	struct progress *progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned rounds = getenv("PFW_EMULATED") ? ROUNDS_EMULATED : ROUNDS;
	unsigned long made[THREADS] = { 0 };
	char why[PFW_LIVE_WHY_BYTES], path[128];
	struct pfw_unwritten *live;
	pid_t pid;

	assert_true(progress != MAP_FAILED);
	snprintf(path, sizeof(path), "%s/t%s", world->dir, suffix);
	dirs[0] = world->dir;
	pid = fork();
	if (!pid)
		work(world, progress, path);
	while (!atomic_load(&progress->made[0]))
		usleep(1000);
	for (unsigned round = 0; round < rounds; round++) {
		take_progress(progress, made);
		assert_int_equal(pfw_unwritten_open(&live, path, &spools, why), 0);
		assert_int_equal(pfw_unwritten_runs(live), looks_alike(pid, progress));
		assert_int_equal(pfw_unwritten_pid(live), pid);
		check_prefixes(path, live, made);
		pfw_unwritten_close(live);
		atomic_store(&progress->asked, round);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	take_progress(progress, made);
	assert_int_equal(pfw_unwritten_open(&live, path, &spools, why), 0);
	assert_false(pfw_unwritten_runs(live));
	check_prefixes(path, live, made);
	pfw_unwritten_close(live);
	munmap(progress, sizeof(*progress));
}

static void test_at_work(void **state)
{
	look_while_it_works(*state, ".pfw");
}

static void test_at_work_compressed(void **state)
{
	look_while_it_works(*state, ".pfw.gz");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(test_dead),
		WORLD_TEST(test_dead_compressed),
		WORLD_TEST(test_dead_without_a_file),
		WORLD_TEST(test_dead_with_much),
		WORLD_TEST(test_blanked_line_break),
		WORLD_TEST(test_finished),
		WORLD_TEST(test_of_another_process),
		WORLD_TEST(test_of_another_host),
		WORLD_TEST(test_of_another_user),
		WORLD_TEST(test_unbegun_paths),
		WORLD_TEST(test_at_work),
		WORLD_TEST(test_at_work_compressed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
