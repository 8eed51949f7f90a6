/* spool_builder.h - spools made by hand, as a killed process would have left them.
 *
 * A spool is laid out in memory, member by member as src/spool.h says, and then written to a file:
 * each test can bend what it is about.
 */
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/format/spool.h"
#include "common/settings/naming.h"
#include "common/settings/process.h"

#define BUILDER_BYTES (16u << 20)
#define BUILDER_START_NS 1795230878000000123ull

/* The templates that builder_templates() makes. */
enum builder_template { BUILDER_PREAD, BUILDER_API, BUILDER_PP, BUILDER_TEMPLATES };

struct builder {
	char dir[256];
	char path[512]; /* of the spool */
	char trace[512];
	char *bytes;
	uint64_t end;
	uint64_t page;	    /* of the machine that the spool was made on */
	uint32_t string_at; /* next free granule of segment 0 */
	char *segment;
};

static inline struct pfw_spool_header *builder_header(struct builder *builder)
{
	return (struct pfw_spool_header *)builder->bytes;
}

/* A pid that is nobody's, with the start time that its process had. */
static inline void builder_dead_process(struct pfw_process *process)
{
	pid_t pid = fork();

	if (!pid) {
		pause();
		_exit(0);
	}
	pfw_process_read(process, pid);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static inline void builder_name_spool(struct builder *builder)
{
	struct pfw_spool_header *header = builder_header(builder);

	snprintf(builder->path, sizeof(builder->path), "%s/pfw-%u-%d-%llu.spool", builder->dir,
		 header->uid, header->pid, (unsigned long long)header->start_time);
}

static inline void builder_name_trace(struct builder *builder, const char *trace)
{
	snprintf(builder->trace, sizeof(builder->trace), "%s", trace);
	snprintf(pfw_spool_trace_path(builder_header(builder)), PFW_PAGE_BYTES, "%s", trace);
}

/* A header of this machine and boot, of a process that is dead; nothing behind it. */
static inline void builder_init(struct builder *builder, const char *dir, bool compressed)
{
	struct pfw_spool_header *header;
	struct pfw_process process = { 0 };
	struct utsname names;
	char trace[512];
	FILE *boot = fopen("/proc/sys/kernel/random/boot_id", "r");

	memset(builder, 0, sizeof(*builder));
	snprintf(builder->dir, sizeof(builder->dir), "%s", dir);
	builder->bytes = calloc(1, BUILDER_BYTES);
	builder->end = PFW_SPOOL_HEADER_BYTES;
	builder->page = PFW_PAGE_BYTES;
	header = builder_header(builder);
	builder_dead_process(&process);
	uname(&names);
	header->magic = PFW_SPOOL_MAGIC;
	header->version = PFW_SPOOL_VERSION;
	header->header_bytes = PFW_SPOOL_HEADER_BYTES;
	header->end = builder->end;
	header->pid = process.pid;
	header->start_time = process.start_time;
	header->start_ns = BUILDER_START_NS;
	header->uid = geteuid();
	header->ppid = getpid();
	header->rank = -1;
	header->world_size = 1;
	header->local_rank = -1;
	header->compressed = compressed;
	header->metadata = 1;
	header->file_made = 1;
	strcpy(header->rank_source, "none");
	snprintf(header->host, sizeof(header->host), "%s", names.nodename);
	if (boot) {
		if (fgets(header->boot_id, sizeof(header->boot_id), boot))
			header->boot_id[strcspn(header->boot_id, "\n")] = '\0';
		fclose(boot);
	}
	strcpy(header->run, "run-7");
	strcpy(header->clock, "monotonic");
	strcpy(header->version_text, "0.1.0");
	strcpy(header->cmd, "cat a file");
	snprintf(trace, sizeof(trace), "%s/t.pfw%s", dir, compressed ? ".gz" : "");
	builder_name_trace(builder, trace);
	builder_name_spool(builder);
}

/* As on a machine with greater pages; before anything is put behind the header. */
static inline void builder_pages(struct builder *builder, uint32_t bytes)
{
	builder->page = bytes;
	builder->end = bytes;
	builder_header(builder)->header_bytes = bytes;
	builder_header(builder)->end = bytes;
}

static inline void *builder_chunk(struct builder *builder, uint32_t kind, uint32_t index,
				  uint64_t bytes)
{
	struct pfw_chunk *chunk = (struct pfw_chunk *)(builder->bytes + builder->end);

	chunk->kind = kind;
	chunk->index = index;
	chunk->bytes = (bytes + builder->page - 1) / builder->page * builder->page;
	builder->end += chunk->bytes;
	builder_header(builder)->end = builder->end;
	return chunk;
}

static inline struct pfw_template_chunk *builder_templates(struct builder *builder)
{
	static const char *const keys[] = { "fd", "count", "offset" };
	struct pfw_template_chunk *chunk =
		builder_chunk(builder, PFW_CHUNK_TEMPLATES, 0,
			      sizeof(*chunk) + BUILDER_TEMPLATES * sizeof(struct pfw_template));
	struct pfw_template *pread = &chunk->template[BUILDER_PREAD];

	chunk->key_count = 3;
	chunk->template_count = BUILDER_TEMPLATES;
	for (unsigned i = 0; i < 3; i++) {
		strcpy(chunk->key[i].name, keys[i]);
		chunk->key[i].type = PFW_TYPE_I64;
		pread->field[i] = (uint8_t)i;
	}
	strcpy(pread->name, "pread");
	strcpy(pread->category, "POSIX");
	pread->shape = PFW_SHAPE_CALL;
	pread->field_count = 3;
	chunk->template[BUILDER_API].shape = PFW_SHAPE_API;
	strcpy(chunk->template[BUILDER_PP].category, "PP");
	chunk->template[BUILDER_PP].shape = PFW_SHAPE_PP;
	return chunk;
}

/* A string of segment 0, which is made with the first one. */
static inline uint32_t builder_string(struct builder *builder, const char *text)
{
	struct pfw_string *string;
	uint32_t at, bytes = (uint32_t)strlen(text);

	if (!builder->segment) {
		builder->segment =
			builder_chunk(builder, PFW_CHUNK_STRINGS, 0, PFW_STRING_SEGMENT_BYTES);
		builder->string_at = 2; /* behind the chunk's head */
	}
	at = builder->string_at;
	string = (struct pfw_string *)(builder->segment + at * PFW_STRING_GRANULE);
	string->generation = 1;
	string->bytes = (uint16_t)bytes;
	string->users = 1;
	string->granules = (uint16_t)((sizeof(*string) + bytes) / PFW_STRING_GRANULE + 1);
	memcpy(string->text, text, bytes);
	builder->string_at += string->granules;
	return pfw_string_ref(1, at);
}

/* A stretch whose positions begin at `start`, all of it free. */
static inline struct pfw_ring_chunk *builder_stretch(struct builder *builder, uint32_t ring,
						     uint64_t order, uint32_t capacity, int32_t tid,
						     uint64_t start)
{
	struct pfw_ring_chunk *stretch =
		builder_chunk(builder, PFW_CHUNK_RING, ring,
			      PFW_PAGE_BYTES + (uint64_t)capacity * PFW_SLOT_BYTES);

	stretch->order = order;
	stretch->capacity = capacity;
	stretch->tid = tid;
	snprintf(stretch->comm, sizeof(stretch->comm), "thread-%d", tid);
	stretch->saved_tail[0] = stretch->saved_tail[1] = start;
	stretch->head = stretch->tail = start;
	stretch->in_use = 1;
	return stretch;
}

/* Reserve slots, padding where they would wrap; the caller fills and commits. */
static inline struct pfw_record *builder_reserve(struct pfw_ring_chunk *stretch, unsigned slots,
						 uint64_t *position)
{
	uint64_t head = stretch->head & ~PFW_RING_CLOSED;
	uint64_t offset = head & (stretch->capacity - 1);

	if (offset + slots > stretch->capacity) {
		struct pfw_record *padding = pfw_ring_slot(stretch, head);

		padding->template = PFW_TEMPLATE_PADDING;
		padding->slots = (uint8_t)(stretch->capacity - offset);
		padding->committed = (uint32_t)(head + 1);
		head += stretch->capacity - offset;
	}
	*position = head;
	stretch->head = head + slots;
	return pfw_ring_slot(stretch, head);
}

/* A pread of sequence number `seq` (its offset says so), named by ref, else by `name` inline. */
static inline struct pfw_record *builder_pread(struct pfw_ring_chunk *stretch, uint64_t seq,
					       uint32_t ref, const char *name)
{
	size_t tail = ref ? 0 : strlen(name);
	unsigned slots = 1 + (unsigned)((tail + PFW_SLOT_BYTES - 1) / PFW_SLOT_BYTES);
	uint64_t position;
	struct pfw_record *record = builder_reserve(stretch, slots, &position);

	memset(record, 0, (size_t)slots * PFW_SLOT_BYTES);
	record->template = BUILDER_PREAD;
	record->slots = (uint8_t)slots;
	record->flags = PFW_RECORD_EPOCH_NS | (ref ? 0 : PFW_RECORD_NAME_INLINE);
	record->t0 = BUILDER_START_NS + 1000 * seq;
	record->dur = 412;
	record->file = ref ? ref : (uint32_t)tail;
	record->value[0] = 4096;
	record->value[1] = 5;
	record->value[2] = 4096;
	record->value[3] = seq;
	if (tail)
		memcpy(record + 1, name, tail);
	record->committed = (uint32_t)(position + 1);
	return record;
}

/* A slot that was reserved and not committed. */
static inline void builder_torn(struct pfw_ring_chunk *stretch)
{
	uint64_t position;
	struct pfw_record *record = builder_reserve(stretch, 1, &position);

	record->committed = (uint32_t)(position + 1 - stretch->capacity);
}

static inline void builder_slot(struct builder *builder, uint64_t generation, uint64_t offset,
				uint64_t next_id, uint64_t events)
{
	struct pfw_slot *slot = &builder_header(builder)->slot[generation & 1];

	slot->generation = generation;
	slot->offset = offset;
	slot->next_id = next_id;
	slot->events = events;
	slot->first.mult = slot->last.mult = 1ull << PFW_CLOCK_SHIFT;
	slot->first.real_offset_ns = slot->last.real_offset_ns = (int64_t)BUILDER_START_NS;
	slot->last.ticks = slot->last.mono_ns = 1000000;
}

/* Write the spool; true when it is all there. */
static inline bool builder_write(struct builder *builder)
{
	int fd = open(builder->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	bool done = fd >= 0 && write(fd, builder->bytes, builder->end) == (ssize_t)builder->end;

	if (fd >= 0)
		close(fd);
	return done;
}

static inline void builder_release(struct builder *builder)
{
	free(builder->bytes);
	builder->bytes = NULL;
}
