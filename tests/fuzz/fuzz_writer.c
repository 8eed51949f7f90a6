/* fuzz_writer.c - any records on their way through rings, strings, lines and gzip into a file, and
 * out of a dead process's spool: every line is JSON, and every record is there once or counted.
 *
 * The input is settings (four bytes), then operations: one byte each (what, and with which ring),
 * followed by what it needs; bytes that are missing read as 0.  All of it happens in one thread:
 * the work of the writer's is done in place, wherever a producer would wake it.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#ifdef PFW_HAVE_JANSSON
#include <jansson.h>
#endif

#define PFW_OS_NO_POISON
#include "../spool_builder.h"
#include "common/encode/encode.h"
#include "recorder/spool/ring.h"
#include "recorder/spool/strings.h"
#include "recorder/spool/templates.h"
#include "recorder/writer/trace_file.h"
#include "recorder/writer/writer.h"
#include "store/read/scan.h"
#include "store/recover/recover.h"
#include "store/traces/ends.h"

#define RINGS 4
#define REFS 16
#define TRACES 16 /* a trace that moves to another file system leaves its old file behind */
#define WAKES_MAX 1000
#define RECORDS_MAX 10000 /* a few bytes of input can be 60 records, and each a kilobyte of text */

enum setting {
	COMPRESSED = 1,
	WHOLE_US = 2,
	NO_METADATA = 4,
	DISABLE_TIDS = 8,
	DROP = 16,
	KILLED = 32,   /* at the end the process is killed, and its trace recovered */
	JUNK = 64,     /* ... in the middle of a write */
	NO_ROOM = 128, /* the spool may grow to a few pages only */
};

/* What is left of the input. */
struct input {
	const uint8_t *at, *end;
};

static struct builder model; /* whose header says host, boot and a dead process */
static char dir[64], other_dir[64];
static struct pfw_gzip *gzip;
static struct pfw_writer writer;

static struct run {
	struct pfw_spool spool;
	struct pfw_ring *ring[RINGS];
	uint32_t ref[REFS];
	unsigned refs;
	uint16_t api, pp;
	char trace[TRACES][PFW_PATH_MAX];
	unsigned traces; /* before the one in hand */
	unsigned wakes;
	bool nested;	    /* a record is open: nothing may be drained before it is closed */
	uint64_t committed; /* records */
	uint64_t names;	    /* of these: no events, but names of lanes, which may make no line */
	uint64_t torn;	    /* reserved, and left */
} run;

/* ---- reading the input ---- */

static void take(struct input *input, void *out, size_t bytes)
{
	size_t left = (size_t)(input->end - input->at);
	size_t there = bytes < left ? bytes : left;

	memset(out, 0, bytes);
	memcpy(out, input->at, there);
	input->at += there;
}

static unsigned take_byte(struct input *input)
{
	uint8_t byte;

	take(input, &byte, 1);
	return byte;
}

static unsigned take_word(struct input *input)
{
	uint16_t word;

	take(input, &word, 2);
	return word;
}

/* ---- the process ---- */

static void say(const char *line)
{
	assert(*line && !strchr(line, '\n'));
}

static void nothing(void)
{
}

static int drain(const char *reason)
{
	return pfw_writer_finish(&writer, reason, NULL);
}

/* As session does it, in place: a producer that would wait finds its ring drained. */
static bool wake(void)
{
	assert(++run.wakes < WAKES_MAX); /* room is made, or it is said that there is none */
	if (pfw_ring_wanted())
		return !pfw_writer_make_rings(&writer);
	return !run.nested && !pfw_ring_host.drop && writer.ready && !drain("wake");
}

static void make_places(void)
{
	strcpy(dir, "/dev/shm/pfw-fuzz-XXXXXX");
	strcpy(other_dir, "/tmp/pfw-fuzz-XXXXXX");
	if (!mkdtemp(dir)) {
		strcpy(dir, "/tmp/pfw-fuzz-XXXXXX");
		assert(mkdtemp(dir));
	}
	assert(mkdtemp(other_dir));
	builder_init(&model, dir, false);
	assert(!pfw_gzip_open(&gzip));
	pfw_clock_init();
}

static void remove_places(void)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf %s %s", dir, other_dir);
	if (system(command))
		fprintf(stderr, "fuzz_writer: %s is left behind\n", dir);
}

static void name_trace(char *out, unsigned number, bool compressed, bool elsewhere)
{
	snprintf(out, PFW_PATH_MAX, "%s/t%u.pfw%s", elsewhere ? other_dir : dir, number,
		 compressed ? ".gz" : "");
}

static void fill_header(struct pfw_spool_header *header, void *user)
{
	const struct pfw_spool_header *like = builder_header(&model);
	const unsigned *settings = user;

	header->start_ns = BUILDER_START_NS;
	header->rank = -1;
	header->compressed = *settings & COMPRESSED;
	header->whole_us = !!(*settings & WHOLE_US);
	header->metadata = !(*settings & NO_METADATA);
	header->disable_tids = !!(*settings & DISABLE_TIDS);
	memcpy(header->host, like->host, sizeof(header->host));
	memcpy(header->boot_id, like->boot_id, sizeof(header->boot_id));
	strcpy(header->run, "run");
	name_trace(pfw_spool_trace_path(header), 0, *settings & COMPRESSED, false);
}

static void begin(struct input *input, unsigned settings)
{
	const struct pfw_spool_header *like = builder_header(&model);
	struct pfw_spool_owner owner = {
		.uid = like->uid,
		.pid = like->pid,
		.start_time = like->start_time,
		.fill = fill_header,
		.user = &settings,
	};
	struct pfw_spool_dirs dirs = { .dir = { dir } };
	unsigned sizes = take_byte(input), room = take_byte(input);

	take_byte(input);
	memset(&run, 0, sizeof(run));
	memset(&writer, 0, sizeof(writer));
	pfw_ring_forget_all();
	pfw_strings_reset();
	assert(!pfw_spool_create(&run.spool, &dirs, &owner));
	assert(!run.spool.heap);
	if (settings & NO_ROOM)
		run.spool.limit = (uint64_t)room * PFW_PAGE_BYTES;
	run.api = pfw_templates_ids().api;
	run.pp = pfw_templates_ids().pp;
	writer.spool = &run.spool;
	writer.flush_ns = 1000000;
	writer.text_limit = 4096u << (sizes & 7);
	writer.ring_max_bytes = 32768u << (sizes >> 3 & 3);
	writer.say = say;
	writer.idle = writer.failed = nothing;
	writer.gzip = settings & COMPRESSED ? gzip : NULL;
	pfw_ring_host = (struct pfw_ring_host){ .wake = wake,
						.header = run.spool.header,
						.stalled = &writer.stalled,
						.drop = settings & DROP };
}

static void unmap_stretch(struct pfw_ring_chunk *stretch)
{
	if (stretch)
		assert(!munmap(stretch, stretch->chunk.bytes));
}

/* What a process leaves to the kernel when it ends. */
static void unmap_all(void)
{
	const struct pfw_string_view *strings = pfw_strings_view();
	void *page = NULL;
	struct pfw_ring *next;

	for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = next) {
		void *its = (void *)((uintptr_t)ring & ~(uintptr_t)(PFW_PAGE_BYTES - 1));

		next = ring->next;
		unmap_stretch(ring->drain);
		unmap_stretch(ring->upcoming);
		unmap_stretch(ring->retired);
		if (page && page != its)
			munmap(page, PFW_PAGE_BYTES);
		page = its;
	}
	if (page)
		munmap(page, PFW_PAGE_BYTES);
	for (unsigned i = 0; i < 32; i++) {
		for (struct pfw_ring_chunk *at = writer.made.pool[i], *after; at; at = after) {
			after = (void *)(uintptr_t)at->order;
			unmap_stretch(at);
		}
	}
	for (unsigned i = 0; i < PFW_STRING_SEGMENTS && strings->segment[i]; i++)
		munmap((void *)(uintptr_t)strings->segment[i], PFW_STRING_SEGMENT_BYTES);
	if (writer.ready) {
		munmap(writer.text.start,
		       writer.text_limit + PFW_JSON_LINE_MAX * 2 + PFW_JSON_SLACK +
			       writer.member.room +
			       pfw_json_cache_bytes(writer.json.templates->template_count));
		munmap((void *)(uintptr_t)writer.json.templates,
		       ((const struct pfw_chunk *)writer.json.templates)->bytes);
	}
	munmap(run.spool.header, PFW_SPOOL_HEADER_BYTES);
}

/* ---- what a program does ---- */

static struct pfw_ring *ring_of(unsigned which)
{
	if (!run.ring[which]) {
		run.wakes = 0;
		run.ring[which] = pfw_ring_acquire();
	}
	return run.ring[which];
}

static struct pfw_record *reserve(unsigned which, unsigned slots, uint64_t *position)
{
	struct pfw_ring *ring = ring_of(which);
	struct pfw_record *record;

	run.wakes = 0;
	record = ring ? pfw_ring_reserve(ring, slots, position) : NULL;
	if (record)
		memset((char *)record + sizeof(record->committed), 0,
		       slots * PFW_SLOT_BYTES - sizeof(record->committed));
	return record;
}

/* Close a record; `head` is all but the mark and the length, which are the ring's. */
static void commit(struct pfw_record *record, const struct pfw_record *head, unsigned slots,
		   uint64_t position)
{
	memcpy((char *)record + sizeof(record->committed),
	       (const char *)head + sizeof(head->committed),
	       sizeof(*head) - sizeof(head->committed));
	record->slots = (uint8_t)slots;
	pfw_ring_commit(record, position);
	run.committed++;
	run.names += head->template == run.pp && head->flags & PFW_RECORD_LANE_NAME;
}

static uint32_t any_ref(unsigned which)
{
	return run.ref[which % REFS];
}

static void operate(struct input *input);

/* A record of any content; a nested one is interrupted by a handler with an operation of its own. */
static void put_raw(struct input *input, unsigned which, bool nested)
{
	unsigned length = take_byte(input), slots = length < 192 ? 1 + length % 8 : length;
	struct pfw_record head, *record;
	uint64_t position;

	take(input, &head, sizeof(head));
	/* From 0xff00 on: a span, a compute event, an untraced child, what no template explains. */
	head.template = (uint16_t)(head.template >= 0xff00 ? run.api + (head.template & 3)
							   : head.template % run.api);
	record = reserve(which, slots, &position);
	if (!record)
		return;
	take(input, record + 1, (slots - 1) * PFW_SLOT_BYTES);
	if (nested && !run.nested) {
		run.nested = true;
		operate(input);
		run.nested = false;
	}
	commit(record, &head, slots, position);
}

/* A call as the probes record it. */
static void put_call(struct input *input, unsigned which)
{
	unsigned template = take_byte(input), named = take_byte(input), bytes = take_byte(input);
	struct pfw_record head, *record;
	uint64_t position;

	take(input, &head, sizeof(head));
	head.template = (uint16_t)(template % run.api);
	head.flags = named & 0x80 ? PFW_RECORD_NAME_INLINE : 0;
	head.file = named & 0x80 ? bytes : any_ref(named);
	head.t0 = pfw_clock_ticks();
	record = reserve(which, 7, &position);
	if (!record)
		return;
	/* Behind five values of eight bytes at most. */
	take(input, record + 1, 6 * PFW_SLOT_BYTES);
	commit(record, &head, 7, position);
}

/* Arguments of a span: number, text, or what should be JSON.  Return the bytes they take. */
static size_t put_args(struct input *input, char *out, size_t room)
{
	unsigned count = take_byte(input) % 8;
	char *at = out, *end = out + room;

	while (count--) {
		struct pfw_arg arg = { .key_bytes = (uint16_t)(take_byte(input) % 32) };

		arg.type = (uint8_t)(take_byte(input) % PFW_TYPE_COUNT);
		arg.value_bytes = 8;
		if (arg.type == PFW_TYPE_STRING || arg.type == PFW_TYPE_JSON)
			arg.value_bytes = take_byte(input);
		if ((size_t)(end - at) < sizeof(arg) + arg.key_bytes + arg.value_bytes)
			break;
		memcpy(at, &arg, sizeof(arg));
		take(input, at + sizeof(arg), arg.key_bytes + arg.value_bytes);
		at += sizeof(arg) + arg.key_bytes + arg.value_bytes;
	}
	return (size_t)(at - out);
}

static void put_span(struct input *input, unsigned which)
{
	unsigned flags = take_byte(input), name = take_byte(input), category = take_byte(input);
	struct pfw_record head = { .template = run.api,
				   .flags = (uint8_t)((flags & 0xf8) | PFW_RECORD_EPOCH_NS),
				   .t0 = BUILDER_START_NS + run.committed,
				   .dur = flags };
	struct pfw_record *record;
	uint64_t position;
	char *tail;

	record = reserve(which, 40, &position);
	if (!record)
		return;
	tail = (char *)(record + 1);
	head.value[0] = (uint64_t)any_ref(category) << 32 | any_ref(name);
	if (!any_ref(name)) {
		take(input, tail, name);
		tail += name;
		head.file = name;
	}
	if (!any_ref(category)) {
		take(input, tail, category);
		tail += category;
		head.file |= category << 16;
	}
	head.value[1] = run.committed;
	head.value[3] = put_args(input, tail, (size_t)((char *)(record + 40) - tail));
	commit(record, &head, 40, position);
}

static void keep_string(struct input *input, bool intern)
{
	char text[PFW_STRING_MAX + 64], *exact;
	size_t bytes = take_word(input) % sizeof(text), directory = take_byte(input);
	uint32_t *ref = &run.ref[run.refs++ % REFS];

	take(input, text, bytes);
	exact = malloc(bytes ? bytes : 1); /* so that a byte read behind it is seen */
	assert(exact);
	memcpy(exact, text, bytes);
	directory = directory < bytes ? directory : bytes;
	*ref = intern ? pfw_string_intern(exact, bytes)
		      : pfw_string_create(exact, directory, exact + directory, bytes - directory);
	free(exact);
}

/* ---- what befalls it ---- */

static void limit_file_size(rlim_t bytes)
{
	struct rlimit limit;

	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
	assert(!setrlimit(RLIMIT_FSIZE, &limit));
}

/* The disk is full, so many bytes behind what is written. */
static void drain_full(unsigned bytes)
{
	limit_file_size(writer.offset + bytes);
	drain("full");
	limit_file_size(RLIM_INFINITY);
}

/* In this file system, or into another: then there are two files. */
static void move_trace(unsigned number)
{
	char path[PFW_PATH_MAX], *now = pfw_spool_trace_path(run.spool.header);
	char *old = run.trace[run.traces];
	bool made = run.spool.header->file_made;

	if (run.traces == TRACES - 1)
		return;
	name_trace(path, number & 15, run.spool.header->compressed, number & 16);
	strcpy(old, now);
	if (!pfw_writer_rename(&writer, path) && made && strcmp(old, now) && !access(old, F_OK))
		run.traces++;
}

static void end_thread(unsigned which)
{
	if (run.ring[which])
		pfw_ring_release(run.ring[which]);
	run.ring[which] = NULL;
}

static void leave_torn(struct input *input, unsigned which)
{
	uint64_t position;
	unsigned slots = take_byte(input);

	if (reserve(which, slots ? slots : 255, &position))
		run.torn++;
}

static void operate(struct input *input)
{
	unsigned byte = take_byte(input), which = byte >> 4 & (RINGS - 1);

	switch (byte & 15) {
	case 0:
	case 1:
		put_raw(input, which, byte & 1);
		break;
	case 2:
		put_call(input, which);
		break;
	case 3:
		put_span(input, which);
		break;
	case 4:
	case 5:
		keep_string(input, byte & 1);
		break;
	case 6:
		pfw_string_drop(any_ref(take_byte(input)));
		break;
	case 7:
		leave_torn(input, which);
		break;
	case 8:
		pfw_ring_count_lost(which, take_byte(input));
		break;
	default:
		if (run.nested)
			break; /* none of these is done with a record open */
		if ((byte & 15) == 9)
			drain("drain");
		else if ((byte & 15) == 10)
			drain_full(take_word(input));
		else if ((byte & 15) == 11)
			move_trace(take_byte(input));
		else if ((byte & 15) == 12)
			end_thread(which);
		else
			for (unsigned i = take_byte(input) & 63; i;
			     i--) { /* more than half a ring */
				struct input again = *input;

				put_call(&again, which);
			}
	}
}

/* ---- the outcome ---- */

struct found {
	uint64_t events, last_id;
	uint64_t untraced; /* records that make lines which are no events */
};

/* One line, by two readers that share nothing; ids count up without a gap through all files. */
static void check_line(const struct pfw_scan *scan, struct found *found)
{
	const struct pfw_entry *entry = &scan->entry;
	unsigned must = PFW_ENTRY_ID | PFW_ENTRY_NAME | PFW_ENTRY_CAT | PFW_ENTRY_PID |
			PFW_ENTRY_TID | PFW_ENTRY_TS | PFW_ENTRY_PH | PFW_ENTRY_ARGS;

	assert(entry->kind == PFW_ENTRY_EVENT && (entry->has & must) == must);
	assert(!entry->repeated && !entry->comma && !scan->unterminated);
	assert(entry->id == found->last_id + 1);
	found->last_id = entry->id;
	found->events += entry->ph != 'M';
	found->untraced += entry->ph == 'M' && pfw_scan_is(scan, "untraced_child");
#ifdef PFW_HAVE_JANSSON
	{
		json_error_t error;
		json_t *object = json_loadb(scan->text, scan->bytes, JSON_ALLOW_NUL, &error);

		assert(object ? json_is_object(object)
			      : json_error_code(&error) == json_error_null_byte_in_key ||
					json_error_code(&error) == json_error_numeric_overflow);
		json_decref(object);
	}
#endif
}

/* The figures of its `end` are those of the file. */
static void check_trace(const char *path, struct found *found, struct pfw_trace *trace)
{
	uint64_t before = found->events;
	enum pfw_scan_result result;
	struct pfw_scan scan;

	assert(!pfw_scan_open(&scan, path));
	while ((result = pfw_scan_next(&scan)) != PFW_SCAN_END) {
		assert(result == PFW_SCAN_LINE);
		check_line(&scan, found);
	}
	pfw_scan_close(&scan);
	assert(!pfw_trace_read(trace, path));
	assert(trace->ours && trace->ended && trace->events == found->events - before);
}

/* Append to the trace what a write may have left there when its process was killed. */
static void add_junk(const struct input *input)
{
	FILE *file = fopen(pfw_spool_trace_path(run.spool.header), "a");

	assert(file);
	fwrite(input->at, 1, (size_t)(input->end - input->at), file);
	fputs("{\"id\":1,", file);
	fclose(file);
}

/* Finish the trace, or have it recovered.  Return what its `end` must say is lost. */
static uint64_t end(struct input *input, unsigned settings, char *last)
{
	struct pfw_spool_header *header = run.spool.header;
	struct pfw_recovery recovery;
	char place[PFW_PAGE_BYTES];
	uint64_t lost = 0;

	if (settings & KILLED) {
		/* Behind a first line: what begins otherwise is another's file. */
		if (settings & JUNK && header->file_made && writer.offset)
			add_junk(input);
		snprintf(place, sizeof(place), "%s", pfw_spool_trace_path(header));
		strrchr(place, '/')[1] = '\0';
		assert(!pfw_recover_spool(run.spool.path, place, &recovery));
		assert(recovery.status <= PFW_RECOVER_NOTHING &&
		       !recovery.why[0] == (recovery.status == PFW_RECOVER_DONE));
		strcpy(last, recovery.trace);
		return recovery.lost;
	}
	assert(!drain("exit"));
	strcpy(last, pfw_spool_trace_path(header));
	pfw_spool_unlink(&run.spool);
	for (unsigned i = 0; i < PFW_LOST_REASONS; i++)
		lost += header->lost[i].count;
	return lost;
}

/* All traces together: each record that was committed is an event, or said to be torn; or a name. */
static void check_outcome(const char *last, uint64_t lost)
{
	const struct pfw_loss *loss = run.spool.header->lost;
	struct found found = { 0 };
	struct pfw_trace trace = { 0 };

	for (unsigned i = 0; i < run.traces; i++) {
		check_trace(run.trace[i], &found, &trace);
		unlink(run.trace[i]);
	}
	if (!access(last, F_OK)) {
		check_trace(last, &found, &trace);
		assert(trace.lost == lost);
		unlink(last);
	}
	for (unsigned i = 0; i < PFW_LOST_REASONS; i++)
		lost -= i == PFW_LOST_TORN ? 0 : loss[i].count;
	assert(found.events + found.untraced + lost + run.names >= run.committed);
	assert(found.events + found.untraced + lost <= run.committed + run.torn);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { data, data + size };
	char last[PFW_PATH_MAX];
	unsigned settings;
	uint64_t lost;

	if (!gzip) {
		make_places();
		atexit(remove_places);
	}
	settings = take_byte(&input);
	begin(&input, settings);
	while (input.at < input.end && run.committed < RECORDS_MAX)
		operate(&input);
	lost = end(&input, settings, last);
	check_outcome(last, lost);
	unmap_all();
	return 0;
}
