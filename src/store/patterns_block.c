/* patterns_block.c - lines of a block as operations on files; see patterns.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "fnames.h"
#include "hash.h"
#include "more.h"
#include "patterns.h"
#include "patterns_op.h"

#define NAME_MAX_BYTES 65536u

struct pfw_patterns_block *pfw_patterns_block_create(void)
{
	return calloc(1, sizeof(struct pfw_patterns_block));
}

void pfw_patterns_block_clear(struct pfw_patterns_block *block)
{
	pfw_names_clear(&block->names);
	memset(block->last, 0, sizeof(block->last));
	block->ops = 0;
	block->threads = false;
	block->counters = (struct pfw_pattern_counters){ 0 };
}

void pfw_patterns_block_free(struct pfw_patterns_block *block)
{
	if (!block)
		return;
	pfw_names_release(&block->names);
	free(block->row);
	free(block->op);
	free(block);
}

/* ---- a line ---- */

static bool find_i64(const struct pfw_entry *entry, const char *key, int64_t *number)
{
	struct pfw_value value;

	return pfw_entry_arg(entry, key, &value) && pfw_value_i64(&value, number);
}

static int64_t arg(const struct pfw_entry *entry, const char *key, int64_t otherwise)
{
	int64_t number;

	return find_i64(entry, key, &number) ? number : otherwise;
}

/* What the call of that name does.  Names are few; finding one out takes longer than reading it. */
static struct pfw_call call_of(struct pfw_patterns_block *block, const char *cat, size_t cat_bytes,
			       const struct pfw_slice *name)
{
	struct pfw_pattern_call *known;
	bool posix = cat_bytes == 5 && cat[0] == 'P';

	if (!name->bytes || name->bytes >= sizeof(known->name))
		return pfw_call_find(cat, cat_bytes, name->at, name->bytes);
	known = &block->recent[((uint8_t)name->at[0] + 7 * (uint8_t)name->at[name->bytes - 1] +
				13 * name->bytes) %
			       64];
	if (known->bytes != name->bytes || known->posix != posix ||
	    memcmp(known->name, name->at, name->bytes) != 0) {
		memcpy(known->name, name->at, name->bytes);
		known->bytes = (uint8_t)name->bytes;
		known->posix = posix;
		known->call = pfw_call_find(cat, cat_bytes, name->at, name->bytes);
	}
	return known->call;
}

static void find_bytes(struct pfw_pattern_op *op, const struct pfw_entry *entry,
		       enum pfw_call_moves moves, int64_t ret)
{
	int64_t size = moves == PFW_MOVES_ITEMS ? arg(entry, "size", -1) : 1;

	if (moves == PFW_MOVES_COUNT)
		ret = arg(entry, "count", -1);
	op->moved =
		(moves == PFW_MOVES_RET || moves == PFW_MOVES_ITEMS || moves == PFW_MOVES_COUNT) &&
		ret >= 0 && size >= 0 &&
		!__builtin_mul_overflow((uint64_t)ret, (uint64_t)size, &op->bytes);
}

/* Calls that move a descriptor's offset, or make another descriptor. */
static void find_seek(struct pfw_pattern_op *op, const struct pfw_entry *entry, int64_t ret)
{
	int64_t whence = arg(entry, "whence", 0);

	if (pfw_slice_is(&entry->name, "lseek") || pfw_slice_is(&entry->name, "lseek64")) {
		op->seek = ret >= 0 ? PFW_SEEK_TO : PFW_SEEK_NONE;
		op->offset = ret;
	} else if (pfw_slice_is(&entry->name, "fseek") || pfw_slice_is(&entry->name, "fseeko")) {
		op->offset = arg(entry, "offset", 0);
		op->seek = whence == SEEK_SET	? PFW_SEEK_TO
			   : whence == SEEK_CUR ? PFW_SEEK_BY
						: PFW_SEEK_LOST;
	} else if (pfw_slice_is(&entry->name, "rewind")) {
		op->seek = PFW_SEEK_TO;
		op->offset = 0;
	} else if (pfw_slice_is(&entry->name, "fsetpos")) {
		op->seek = PFW_SEEK_LOST;
	} else if (pfw_slice_is(&entry->name, "dup") || pfw_slice_is(&entry->name, "dup2") ||
		   pfw_slice_is(&entry->name, "dup3")) {
		op->dup = ret;
	} else if (pfw_slice_is(&entry->name, "fcntl")) {
		int64_t command = arg(entry, "cmd", -1);

		if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
			op->dup = ret;
	} else if (pfw_slice_is(&entry->name, "close") || pfw_slice_is(&entry->name, "fclose")) {
		op->seek = PFW_SEEK_CLOSED;
	}
}

static int64_t escaped_name(struct pfw_patterns_block *block, const struct pfw_slice *fname)
{
	char *text = malloc(fname->bytes + 1);
	int64_t number;

	if (!text)
		return -ENOMEM;
	number = pfw_names_of(&block->names, 0, text,
			      pfw_slice_decode(fname, text, fname->bytes + 1));
	free(text);
	return number;
}

/* The number of a file's name.  Calls on one descriptor have the same one, as a rule. */
static int64_t find_name(struct pfw_patterns_block *block, int64_t fd,
			 const struct pfw_slice *fname)
{
	uint32_t *last = &block->last[(uint64_t)fd % PFW_PATTERN_LAST];
	const struct pfw_name *name = *last ? &block->names.name[*last - 1] : NULL;
	int64_t number;

	if (fname->escaped)
		return escaped_name(block, fname);
	if (name && name->bytes == fname->bytes &&
	    pfw_hash_same(name->text, fname->at, fname->bytes))
		return *last - 1;
	number = pfw_names_of(&block->names, 0, fname->at, fname->bytes);
	if (number >= 0)
		*last = (uint32_t)number + 1;
	return number;
}

static int add_op(struct pfw_patterns_block *block, struct pfw_pattern_op *op,
		  const struct pfw_slice *fname)
{
	struct pfw_pattern_op *more = pfw_more(block->op, block->ops, &block->room, sizeof(*more));
	int64_t name;

	if (!more)
		return -ENOMEM;
	block->op = more;
	name = find_name(block, op->fd, fname);
	if (name < 0)
		return -ENOMEM;
	op->name = (uint32_t)name;
	op->order = (uint32_t)block->ops;
	more[block->ops++] = *op;
	return 0;
}

/* The figures of the whole process since the line before. */
static void add_counters(struct pfw_pattern_counters *counters, const struct pfw_entry *entry)
{
	uint64_t *into = pfw_slice_is(&entry->name, "io")	 ? counters->io
			 : pfw_slice_is(&entry->name, "storage") ? counters->storage
								 : NULL;
	int64_t read = arg(entry, "read", -1), written = arg(entry, "written", -1);

	if (!into || read < 0 || written < 0)
		return;
	into[PFW_SIDE_READ] += (uint64_t)read;
	into[PFW_SIDE_WRITE] += (uint64_t)written;
	counters->any = true;
}

/* Calls under PFW_MIN_DUR, added up. */
static int add_summed(struct pfw_patterns_block *block, const struct pfw_entry *entry, bool wanted)
{
	struct pfw_value name, fname, dur;
	struct pfw_pattern_op op = { .pid = entry->pid,
				     .ts_ns = entry->ts_ns,
				     .fd = -1,
				     .dup = -1,
				     .summed = true,
				     .wanted = wanted };
	const char *cat;

	if (!pfw_entry_arg(entry, "name", &name) || name.type != PFW_VALUE_STRING ||
	    !pfw_entry_arg(entry, "fname", &fname) || fname.type != PFW_VALUE_STRING)
		return 0;
	cat = pfw_call_cat(name.text.at, name.text.bytes);
	op.role = call_of(block, cat, 5, &name.text).role;
	op.calls = (uint64_t)arg(entry, "count", 0);
	op.bytes = (uint64_t)arg(entry, "bytes", 0);
	if (pfw_entry_arg(entry, "dur", &dur))
		pfw_slice_us(&dur.text, &op.ns);
	return add_op(block, &op, &fname.text);
}

static int add_call(struct pfw_patterns_block *block, const struct pfw_entry *entry,
		    const struct pfw_slice *fname, struct pfw_call call, bool wanted)
{
	int64_t ret = arg(entry, "ret", call.role == PFW_CALL_OPEN ? -1 : 0);
	struct pfw_pattern_op op = { .pid = entry->pid,
				     .ts_ns = entry->ts_ns,
				     .ns = entry->dur_ns,
				     .calls = 1,
				     .fd = arg(entry, "fd", -1),
				     .dup = -1,
				     .role = call.role,
				     .wanted = wanted,
				     .failed = ret < 0 };
	struct pfw_value target;
	int error;

	if (call.role == PFW_CALL_OPEN) {
		op.fd = ret;
		op.append = arg(entry, "flags", 0) & O_APPEND;
	} else if (call.role == PFW_CALL_OTHER) {
		find_seek(&op, entry, ret);
	} else {
		find_bytes(&op, entry, call.moves, ret);
		op.offset = arg(entry, "offset", -1);
		op.placed = op.offset >= 0;
	}
	error = add_op(block, &op, fname);
	if (error || call.role != PFW_CALL_COPY || !pfw_entry_arg(entry, "target", &target) ||
	    target.type != PFW_VALUE_STRING)
		return error;
	op.role = PFW_CALL_WRITE;
	op.target_of_copy = true;
	op.fd = arg(entry, "fd_out", -1);
	op.offset = arg(entry, "offset_out", -1);
	op.placed = op.offset >= 0;
	return add_op(block, &op, &target.text);
}

int pfw_patterns_block_add(struct pfw_patterns_block *block, const struct pfw_entry *entry,
			   const struct pfw_fnames *fnames, bool wanted)
{
	struct pfw_value fname;
	struct pfw_call call;

	if (entry->ph == 'C') {
		if (wanted && pfw_slice_is(&entry->cat, "COUNTER"))
			add_counters(&block->counters, entry);
		return 0;
	}
	if (entry->ph == 'M')
		return pfw_slice_is(&entry->cat, "pfw") && pfw_slice_is(&entry->name, "summed")
			       ? add_summed(block, entry, wanted)
			       : 0;
	if (entry->ph != 'X')
		return 0;
	if (!pfw_call_is_io(&entry->cat))
		return 0;
	call = call_of(block, entry->cat.at, entry->cat.bytes, &entry->name);
	if (!pfw_fnames_find(fnames, entry, &fname) || fname.type != PFW_VALUE_STRING ||
	    fname.text.bytes > NAME_MAX_BYTES)
		return 0;
	if (!block->ops)
		block->tid = entry->tid;
	block->threads |= entry->tid != block->tid;
	return add_call(block, entry, &fname.text, call, wanted);
}
