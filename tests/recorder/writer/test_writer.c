/* test_writer.c - the writer on a spool of the test: header slots, ends, errors, names. */
#define PFW_OS_NO_POISON
#include "recorder/writer/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "common/base/os.h"
#include "common/calls/table.h"
#include "recorder/spool/ring.h"
#include "recorder/spool/strings.h"
#include "recorder/spool/templates.h"
#include "remove_tree.h"

#define FLUSH_TIMEOUT_NS 60000000000ull
#define TEXT_MAX (64u << 20)

/* The recorder of one process, made anew for each test. */
static struct world {
	char dir[64], trace[128];
	struct pfw_spool spool;
	struct pfw_spool_dirs dirs;
	struct pfw_ring *ring; /* this thread's */
	uint16_t api;
	_Atomic unsigned said, failed;
	char line[8192]; /* the last message */
	char *text;	 /* contents of the trace */
	size_t bytes;
} world;

static struct pfw_writer writer;

static void say(const char *line)
{
	snprintf(world.line, sizeof(world.line), "%s", line);
	world.said++;
}

static void on_failed(void)
{
	world.failed++;
}

static void on_idle(void)
{
}

/* As session, with another lock. */
static bool wake(void)
{
	static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER;
	bool awake = pfw_writer_wake(&writer), wanted = pfw_ring_wanted() != 0;

	if ((awake && !wanted) || atomic_load(&writer.stalled) || atomic_load(&writer.dead))
		return awake;
	pthread_mutex_lock(&life);
	awake = !wanted || !pfw_writer_make_rings(&writer);
	if (awake && !atomic_load(&writer.thread_wanted))
		awake = !pfw_writer_start(&writer);
	awake = awake && pfw_writer_wake(&writer);
	pthread_mutex_unlock(&life);
	return awake;
}

static void begin_with(struct pfw_gzip *gzip, uint64_t text_limit, bool drop)
{
	struct pfw_spool_owner owner = { .uid = getuid(), .pid = getpid(), .start_time = 1 };

	memset(&world, 0, sizeof(world));
	memset(&writer, 0, sizeof(writer));
	pfw_ring_forget_all();
	pfw_strings_reset();
	strcpy(world.dir, "/tmp/pfw-writer-XXXXXX");
	assert_non_null(mkdtemp(world.dir));
	snprintf(world.trace, sizeof(world.trace), "%s/t.pfw", world.dir);
	world.dirs.dir[0] = world.dir;
	assert_int_equal(pfw_spool_create(&world.spool, &world.dirs, &owner), 0);
	assert_false(world.spool.heap);
	world.spool.header->metadata = 1;
	world.spool.header->rank = -1;
	strcpy(pfw_spool_trace_path(world.spool.header), world.trace);
	world.api = pfw_templates_ids().api;
	writer.spool = &world.spool;
	writer.gzip = gzip;
	writer.flush_ns = 20000000;
	writer.text_limit = text_limit;
	writer.ring_max_bytes = 128 * 1024;
	writer.say = say;
	writer.idle = on_idle;
	writer.failed = on_failed;
	pfw_ring_host = (struct pfw_ring_host){
		.wake = wake, .header = world.spool.header, .stalled = &writer.stalled, .drop = drop
	};
	world.ring = pfw_ring_acquire();
	assert_non_null(world.ring);
}

static void begin(uint64_t text_limit, bool drop)
{
	begin_with(NULL, text_limit, drop);
}

/* Runs after a failed test, too. */
static int teardown(void **state)
{
	struct rlimit limit;

	(void)state;
	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_FSIZE, &limit);
	pfw_writer_pause(&writer, true);
	return 0;
}

static void end(void)
{
	pfw_writer_pause(&writer, true);
	pfw_ring_forget_all();
	pfw_ring_host = (struct pfw_ring_host){ 0 };
	free(world.text);
	assert_int_equal(remove_tree(world.dir), 0);
}

/* Record an event "evNUMBER"; false if it is lost. */
static bool put(struct pfw_ring *ring, uint64_t number)
{
	char name[32];
	size_t bytes = (size_t)snprintf(name, sizeof(name), "ev%llu", (unsigned long long)number);
	uint64_t position;
	struct pfw_record *record = pfw_ring_reserve(ring, 2, &position);

	if (!record)
		return false;
	record->template = world.api;
	record->slots = 2;
	record->flags = PFW_RECORD_EPOCH_NS;
	record->t0 = 1795230878000000000ull + number;
	record->dur = 5;
	record->file = (uint32_t)(bytes | 3u << 16);
	record->error = 0;
	memset(record->value, 0, sizeof(record->value));
	record->value[1] = number + 1;
	memcpy(record + 1, name, bytes);
	memcpy((char *)(record + 1) + bytes, "app", 3);
	pfw_ring_commit(record, position);
	return true;
}

static int flush(void)
{
	wake();
	return pfw_writer_flush(&writer, FLUSH_TIMEOUT_NS);
}

/* Record until the writer finds that it cannot write. */
static void until_stalled(void)
{
	while (!atomic_load(&writer.stalled)) {
		wake();
		sched_yield();
	}
	pfw_writer_pause(&writer, true);
}

static const char *read_trace(void)
{
	gzFile file = gzopen(pfw_spool_trace_path(world.spool.header), "r"); /* or plain text */

	if (!world.text)
		world.text = malloc(TEXT_MAX);
	assert_non_null(world.text);
	world.bytes = 0;
	if (file) {
		world.bytes = (size_t)gzread(file, world.text, TEXT_MAX - 1);
		assert_int_equal(gzclose(file), Z_OK);
	}
	world.text[world.bytes] = '\0';
	return world.text;
}

/* Find a part in the line at *at, or NULL; *at moves to the next line.  (With sanitizers, strstr()
 * over the whole rest would check all of it each time.) */
static const char *find_in_line(const char **at, const char *part)
{
	const char *line = *at;
	size_t left = (size_t)(world.text + world.bytes - line);
	const char *newline = memchr(line, '\n', left);
	size_t bytes = newline ? (size_t)(newline + 1 - line) : left;

	*at = line + bytes;
	return memmem(line, bytes, part, strlen(part));
}

static unsigned count_of(const char *part)
{
	unsigned count = 0;

	for (const char *at = read_trace(); *at;)
		count += find_in_line(&at, part) != NULL;
	return count;
}

/* The next event's number, or -1. */
static int64_t next_event(const char **at)
{
	static const char name[] = "\"name\":\"ev";
	const char *found = NULL;

	while (**at && !found)
		found = find_in_line(at, name);
	return found ? (int64_t)strtoul(found + sizeof(name) - 1, NULL, 10) : -1;
}

/* The trace holds the events first to last - 1, in order, each once, and no others. */
static void assert_events(uint64_t first, uint64_t last)
{
	const char *at = read_trace();
	int64_t number;

	while ((number = next_event(&at)) >= 0)
		assert_int_equal(number, first++);
	assert_int_equal(first, last);
}

static unsigned lines(void)
{
	return count_of("\n");
}

/* ---- header slots ---- */

/* After each write the newer slot describes the file, and the older one the file before. */
static void writes_alternate_between_the_slots(void **state)
{
	struct pfw_spool_header *header;
	uint64_t number = 0, before_offset = 0;

	(void)state;
	begin(1 << 20, false);
	header = world.spool.header;
	for (unsigned round = 0; round < 25; round++) {
		uint64_t generation;
		struct pfw_slot *slot, *other;

		for (unsigned i = 0; i <= round; i++)
			assert_true(put(world.ring, number++));
		assert_int_equal(flush(), 0);
		pfw_writer_pause(&writer, true);
		slot = &header->slot[header->slot[1].generation > header->slot[0].generation];
		other = &header->slot[slot == &header->slot[0]];
		generation = slot->generation;
		assert_int_equal(slot - header->slot, generation & 1);
		assert_int_equal(other->generation, generation - 1);
		read_trace();
		assert_int_equal(slot->offset, world.bytes);
		assert_true(other->offset >= before_offset && other->offset < slot->offset);
		assert_int_equal(slot->next_id, lines() + 1);
		assert_int_equal(slot->events, number);
		assert_int_equal(slot->last.mult >> 60, 0);
		assert_int_equal(world.ring->drain->saved_tail[generation & 1],
				 world.ring->drain->head);
		assert_int_equal(world.ring->drain->tail, world.ring->drain->head);
		assert_int_equal(writer.events, number);
		assert_int_equal(writer.trace_bytes, world.bytes);
		before_offset = slot->offset;
	}
	assert_events(0, number);
	end();
}

static void a_crash_at_any_moment_loses_and_doubles_nothing(void **state)
{
	uint64_t number = 0;

	(void)state;
	begin(2048, false); /* so that one pass makes many writes */
	for (unsigned round = 0; round < 40; round++) {
		struct pfw_spool_header *header = world.spool.header;
		struct pfw_slot *slot;
		uint64_t kept;

		for (unsigned i = 0; i < 100; i++)
			assert_true(put(world.ring, number++));
		pfw_writer_pause(&writer, true); /* at any point of its pass */
		slot = &header->slot[header->slot[1].generation > header->slot[0].generation];
		kept = 0;
		for (unsigned i = 0; i < 16; i++) /* as recovery reads the rings */
			for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next)
				if (ring->drain->order == i)
					kept += (ring->drain->head & ~PFW_RING_CLOSED) -
						ring->drain->saved_tail[slot->generation & 1];
		if (!world.ring->upcoming && !world.ring->retired) {
			uint64_t slots = 2 * (number - slot->events);

			/* At most one slot of padding a lap. */
			assert_true(kept >= slots && kept <= slots + 2);
		}
		assert_int_equal(pfw_writer_start(&writer), 0);
	}
	assert_int_equal(flush(), 0);
	assert_events(0, number);
	end();
}

/* Rings are made, and nobody drains them. */
static bool wake_nobody(void)
{
	return !pfw_ring_wanted() || !pfw_writer_make_rings(&writer);
}

static void threads_that_come_and_go_take_each_others_rings(void **state)
{
	const uint64_t threads = 1000;
	unsigned rings = 0;

	(void)state;
	begin(1 << 20, false);
	pfw_writer_pause(&writer, true);
	pfw_ring_host.wake = wake_nobody;
	for (uint64_t i = 0; i < threads; i++) {
		struct pfw_ring *ring = pfw_ring_acquire();

		assert_non_null(ring);
		assert_true(put(ring, i));
		pfw_ring_release(ring);
	}
	for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next)
		rings++;
	assert_in_range(rings, 2, 70);
	pfw_ring_host.wake = wake;
	assert_int_equal(pfw_writer_finish(&writer, "exit", NULL), 0);
	assert_int_equal(count_of("\"name\":\"ev"), threads);
	end();
}

/* ---- ends ---- */

static void a_trace_may_end_more_than_once(void **state)
{
	(void)state;
	begin(1 << 20, false);
	for (uint64_t i = 0; i < 10; i++)
		assert_true(put(world.ring, i));
	pfw_writer_pause(&writer, true);
	assert_int_equal(pfw_writer_finish(&writer, "exit", NULL), 0);
	assert_events(0, 10);
	assert_int_equal(count_of("\"name\":\"end\""), 1);
	assert_int_equal(pfw_writer_finish(&writer, "exit", NULL), 0);
	assert_int_equal(count_of("\"name\":\"end\""), 1); /* no newer events */
	assert_true(put(world.ring, 10));
	assert_int_equal(pfw_writer_finish(&writer, "exit", NULL), 0);
	assert_events(0, 11);
	assert_int_equal(count_of("\"name\":\"end\""), 2);
	pfw_ring_count_lost(PFW_LOST_NO_MEMORY, 3); /* a late thread got no ring */
	assert_int_equal(pfw_writer_finish(&writer, "exit", NULL), 0);
	assert_int_equal(count_of("\"name\":\"end\""), 3);
	assert_int_equal(count_of("\"reason\":\"no_memory\",\"count\":3"), 1);
	assert_int_equal(count_of("\"name\":\"process\""), 1);
	assert_int_equal(count_of("\"name\":\"thread_name\""), 1);
	end();
}

/* The number of members; those after the first, which holds the `end`, cross no page. */
static unsigned check_pages(void)
{
	unsigned char header[PFW_GZIP_HEADER_BYTES];
	struct pfw_gzip_summary summary;
	unsigned count = 0;
	uint64_t at = 0;
	FILE *file = fopen(world.trace, "r");

	assert_non_null(file);
	while (fseek(file, (long)at, SEEK_SET) == 0 && fread(header, sizeof(header), 1, file)) {
		assert_int_equal(pfw_gzip_read_summary(header, sizeof(header), &summary), 0);
		assert_true(!count || at / PFW_PAGE_BYTES ==
					      (at + summary.member_bytes - 1) / PFW_PAGE_BYTES);
		at += summary.member_bytes;
		count++;
	}
	fclose(file);
	return count;
}

/* Lines after an `end` are written whole or not at all, also if a kill interrupts the write. */
static void behind_an_end_no_member_crosses_a_page(void **state)
{
	struct pfw_gzip *gzip;
	uint64_t number = 0;

	(void)state;
	assert_int_equal(pfw_gzip_open(&gzip), 0);
	begin_with(gzip, 1 << 20, false);
	while (number < 2000) {
		for (uint64_t more = number % 7 + 1; more; more--)
			assert_true(put(world.ring, number++));
		pfw_writer_pause(&writer, true);
		assert_int_equal(pfw_writer_finish(&writer, "exit", NULL), 0);
	}
	assert_events(0, number);
	assert_true(check_pages() > count_of("\"name\":\"end\"")); /* pads, too */
	end();
	pfw_gzip_close(gzip);
}

/* Handlers jumped out of a record in the stretch that is drained and in the next one. */
static void what_is_torn_holds_up_no_end(void **state)
{
	uint64_t number = 0, position;

	(void)state;
	begin(1 << 20, false);
	/* More than half of the ring in one pass. */
	pfw_writer_pause(&writer, true);
	pfw_ring_host.wake = NULL;
	while (number < 200)
		assert_true(put(world.ring, number++));
	assert_int_equal(flush(), 0);
	pfw_writer_pause(&writer, true);
	assert_non_null(world.ring->upcoming);
	assert_non_null(pfw_ring_reserve(world.ring, 1, &position));
	while (atomic_load(&world.ring->stretch) == world.ring->drain)
		assert_true(put(world.ring, number++));
	assert_non_null(pfw_ring_reserve(world.ring, 1, &position));
	for (unsigned i = 0; i < 5; i++)
		assert_true(put(world.ring, number++));
	assert_int_equal(pfw_writer_finish(&writer, "exit", NULL), 0);
	assert_events(0, number);
	assert_int_equal(count_of("\"reason\":\"torn\",\"count\":2"), 1);
	end();
}

static void nothing_recorded_leaves_no_file(void **state)
{
	struct stat st;

	(void)state;
	begin(1 << 20, false);
	assert_int_equal(flush(), 0);
	pfw_writer_pause(&writer, true);
	assert_int_equal(pfw_writer_finish(&writer, "exit", NULL), 0);
	assert_int_equal(stat(world.trace, &st), -1);
	assert_int_equal(world.spool.header->file_made, 0);
	end();
}

static void a_paused_writer_goes_on_where_it_was(void **state)
{
	uint64_t number = 0;

	(void)state;
	begin(1 << 20, false);
	for (unsigned round = 0; round < 30; round++) {
		for (unsigned i = 0; i < 50; i++)
			assert_true(put(world.ring, number++));
		wake();
		pfw_writer_pause(&writer, round % 2);
	}
	assert_int_equal(flush(), 0);
	assert_events(0, number);
	assert_int_equal(world.said, 0);
	end();
}

/* ---- names of the file ---- */

static void a_taken_name_is_left_alone(void **state)
{
	char path[160], other[32] = "";
	FILE *file;

	(void)state;
	begin(1 << 20, false);
	file = fopen(world.trace, "w");
	assert_non_null(file);
	fputs("another's", file);
	fclose(file);
	assert_true(put(world.ring, 0));
	assert_int_equal(flush(), 0);
	snprintf(path, sizeof(path), "%s/t.2.pfw", world.dir);
	assert_string_equal(pfw_spool_trace_path(world.spool.header), path);
	assert_events(0, 1);
	file = fopen(world.trace, "r");
	assert_non_null(fgets(other, sizeof(other), file));
	fclose(file);
	assert_string_equal(other, "another's");
	end();
}

static void a_trace_may_be_renamed_at_any_time(void **state)
{
	char path[160];
	struct stat st;

	(void)state;
	begin(1 << 20, false);
	snprintf(path, sizeof(path), "%s/sub/u.pfw", world.dir);
	assert_int_equal(pfw_writer_rename(&writer, path), 0);
	assert_true(put(world.ring, 0));
	assert_int_equal(flush(), 0);
	assert_string_equal(pfw_spool_trace_path(world.spool.header), path);
	pfw_writer_pause(&writer, true);
	assert_int_equal(pfw_writer_rename(&writer, world.trace), 0);
	assert_int_equal(stat(path, &st), -1);
	assert_true(put(world.ring, 1));
	assert_int_equal(flush(), 0);
	assert_events(0, 2);
	assert_int_equal(count_of("\"name\":\"process\""), 1);
	end();
}

/* ---- trouble ---- */

static void limit_file_size(rlim_t bytes)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* While the disk is full, rings keep records, and those without room are counted. */
static void a_full_disk_is_waited_for(void **state)
{
	uint64_t kept = 0, lost;
	char part[64];

	(void)state;
	begin(4096, false);
	while (kept < 20)
		assert_true(put(world.ring, kept++));
	assert_int_equal(flush(), 0);
	read_trace();
	limit_file_size(world.bytes + 100);
	assert_true(put(world.ring, kept++));
	until_stalled();
	assert_int_equal(writer.last_error, -EFBIG);
	assert_int_equal(world.said, 1);
	assert_non_null(strstr(world.line, world.trace));
	assert_non_null(strstr(world.line, "EFBIG"));
	while (put(world.ring, kept))
		kept++;
	assert_int_equal(pfw_writer_finish(&writer, "exit", NULL), -EFBIG);
	assert_int_equal(world.said, 1); /* one message only */
	for (unsigned i = 0; i < 9; i++)
		assert_false(put(world.ring, 1000000));
	lost = world.spool.header->lost[PFW_LOST_WRITE].count;
	assert_int_equal(lost, 10);
	assert_events(0, 20);
	assert_int_equal(world.bytes, writer.offset); /* whole lines only */
	limit_file_size(RLIM_INFINITY);
	assert_int_equal(pfw_writer_finish(&writer, "exit", NULL), 0);
	assert_int_equal(world.failed, 0);
	assert_true(put(world.ring, kept++));
	assert_int_equal(flush(), 0);
	assert_events(0, kept);
	snprintf(part, sizeof(part), "\"reason\":\"write_error\",\"count\":%llu",
		 (unsigned long long)lost);
	assert_int_equal(count_of(part), 1);
	end();
}

/* A finish that drained but could not write is followed by one with its own `end`. */
static void a_trace_that_was_full_ends_again(void **state)
{
	const char *last;

	(void)state;
	begin(1 << 20, false);
	assert_true(put(world.ring, 0));
	pfw_writer_pause(&writer, true);
	assert_int_equal(pfw_writer_finish(&writer, "exec", NULL), 0);
	limit_file_size(writer.offset + 10);
	assert_true(put(world.ring, 1));
	assert_int_equal(pfw_writer_finish(&writer, "exit", NULL), -EFBIG);
	limit_file_size(RLIM_INFINITY);
	assert_int_equal(pfw_writer_finish(&writer, "exit", NULL), 0);
	assert_events(0, 2);
	last = strstr(strstr(world.text, "ev1"), "\"name\":\"end\"");
	assert_non_null(last);
	assert_non_null(strstr(last, "\"events\":2"));
	end();
}

static void an_adopted_trace_is_not_written_to(void **state)
{
	(void)state;
	begin(1 << 20, false);
	assert_true(put(world.ring, 0));
	assert_int_equal(flush(), 0);
	atomic_store(&world.spool.header->state, PFW_SPOOL_ADOPTED);
	assert_true(put(world.ring, 1));
	until_stalled();
	assert_int_equal(world.said, 1);
	assert_int_equal(world.failed, 1);
	assert_int_equal(writer.dead, 1);
	assert_int_equal(pfw_writer_finish(&writer, "exit", NULL), -ENOENT);
	assert_events(0, 1);
	assert_int_equal(count_of("\"name\":\"end\""), 0);
	end();
}

static void a_removed_trace_is_not_made_again(void **state)
{
	struct stat st;

	(void)state;
	begin(1 << 20, false);
	assert_true(put(world.ring, 0));
	assert_int_equal(flush(), 0);
	pfw_writer_pause(&writer, true);
	assert_int_equal(unlink(world.trace), 0);
	assert_true(put(world.ring, 1));
	until_stalled();
	assert_int_equal(writer.last_error, -ENOENT);
	assert_int_equal(world.failed, 1);
	assert_int_equal(stat(world.trace, &st), -1);
	end();
}

static void a_directory_that_refuses_is_said(void **state)
{
	(void)state;
	begin(1 << 20, false);
	strcpy(pfw_spool_trace_path(world.spool.header), "/proc/no/such/t.pfw");
	assert_true(put(world.ring, 0));
	until_stalled();
	assert_int_equal(world.said, 1);
	assert_int_equal(world.failed, 1);
	assert_non_null(strstr(world.line, "/proc/no/such/t.pfw"));
	assert_non_null(strstr(world.line, "DFTRACER_LOG_FILE"));
	end();
}

/* ---- names of files in records ---- */

static uint16_t template_of(const char *name)
{
	size_t calls;
	const struct pfw_call_info *call = pfw_calls_info(&calls);

	for (size_t i = 0; i < calls; i++)
		if (!strcmp(call[i].name, name))
			return (uint16_t)i;
	fail_msg("no call %s", name);
	return 0;
}

/* Short-lived descriptors, many writes in one pass: every event still has its name. */
static void names_outlive_the_records_that_use_them(void **state)
{
	uint16_t fsync_id = template_of("fsync");
	unsigned files = 0;

	(void)state;
	begin(1024, false);
	for (unsigned round = 0; round < 12; round++) {
		for (unsigned i = 0; i < 150; i++, files++) {
			char name[64];
			int bytes = snprintf(name, sizeof(name), "/data/file-%u", files);
			uint32_t ref = pfw_string_create(NULL, 0, name, (size_t)bytes);
			uint64_t position;
			struct pfw_record *record = pfw_ring_reserve(world.ring, 1, &position);

			assert_int_not_equal(ref, 0);
			assert_non_null(record);
			memset(&record->template, 0,
			       sizeof(*record) - offsetof(struct pfw_record, template));
			record->template = fsync_id;
			record->slots = 1;
			record->file = ref;
			pfw_ring_commit(record, position);
			pfw_string_drop(ref);
		}
		assert_int_equal(flush(), 0);
	}
	for (unsigned i = 0; i < files; i += 7) {
		char part[64];

		snprintf(part, sizeof(part), "\"fname\":\"/data/file-%u\"", i);
		assert_int_equal(count_of(part), 1);
	}
	assert_int_equal(count_of("\"fname\":\"/data/file-"), files);
	end();
}

/* ---- threads ---- */

#define PRODUCERS 4
#define EACH 20000

static void *producer_main(void *arg)
{
	struct pfw_ring *ring = pfw_ring_acquire();
	uint64_t first = (uintptr_t)arg * EACH;

	for (uint64_t i = 0; ring && i < EACH; i++)
		put(ring, first + i);
	if (ring)
		pfw_ring_release(ring);
	return NULL;
}

static void threads_lose_nothing(void **state)
{
	pthread_t thread[PRODUCERS];
	uint64_t next[PRODUCERS] = { 0 }, seen = 0;
	int64_t number;
	const char *at;

	(void)state;
	begin(64 * 1024, false);
	for (uintptr_t i = 0; i < PRODUCERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, producer_main, (void *)i), 0);
	for (unsigned i = 0; i < PRODUCERS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(flush(), 0);
	at = read_trace();
	for (; (number = next_event(&at)) >= 0; seen++) {
		assert_true(number < PRODUCERS * EACH);
		assert_int_equal(number % EACH, next[number / EACH]++);
	}
	assert_int_equal(seen, PRODUCERS * EACH);
	assert_int_equal(world.spool.header->lost[PFW_LOST_FULL].count, 0);
	/* Rings of the producers, of this thread, and a spare; and a thread that has just taken its
	 * ring is for a moment one that waits, too.  A write frees those of ended threads. */
	assert_true(put(world.ring, PRODUCERS * EACH));
	assert_int_equal(flush(), 0);
	assert_true(writer.made.rings <= 2 * PRODUCERS + 2);
	for (unsigned i = 0; i < PRODUCERS; i++) /* which can be taken again */
		assert_non_null(pfw_ring_acquire());
	assert_true(writer.made.rings <= 2 * PRODUCERS + 2);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_teardown(name, teardown)
		TEST(writes_alternate_between_the_slots),
		TEST(a_crash_at_any_moment_loses_and_doubles_nothing),
		TEST(threads_that_come_and_go_take_each_others_rings),
		TEST(a_trace_may_end_more_than_once),
		TEST(behind_an_end_no_member_crosses_a_page),
		TEST(what_is_torn_holds_up_no_end),
		TEST(nothing_recorded_leaves_no_file),
		TEST(a_paused_writer_goes_on_where_it_was),
		TEST(a_taken_name_is_left_alone),
		TEST(a_trace_may_be_renamed_at_any_time),
		TEST(a_full_disk_is_waited_for),
		TEST(a_trace_that_was_full_ends_again),
		TEST(an_adopted_trace_is_not_written_to),
		TEST(a_removed_trace_is_not_made_again),
		TEST(a_directory_that_refuses_is_said),
		TEST(names_outlive_the_records_that_use_them),
		TEST(threads_lose_nothing),
#undef TEST
	};

	signal(SIGXFSZ, SIG_DFL); /* the writer must never raise it */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
