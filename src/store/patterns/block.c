/* store/patterns/block.c - turns the lines of a block into operations on files; see patterns.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "store/kit/grow.h"
#include "store/kit/hash.h"
#include "store/kit/saturate.h"
#include "store/line/io.h"
#include "store/pass/fname_hashes.h"
#include "store/patterns/op.h"
#include "store/patterns/patterns.h"
#include "store/summary/summary.h"

#define NAME_MAX_BYTES 65536u
/* Not inline: few lines need this, and the code for every call stays small. */
#define NOT_INLINE __attribute__((noinline))
/* In of_row[]: no file. */
#define NO_FILE UINT32_MAX

void pfw_patterns_block_clear(void *patterns_block)
{
	struct pfw_patterns_block *block = patterns_block;

	pfw_text_ids_clear(&block->names);
	block->summary = NULL;
	memset(block->last, 0, sizeof(block->last));
	pfw_pattern_ops_clear(&block->ops);
	if (block->of_row)
		memset(block->of_row, 0, block->of_row_room * sizeof(*block->of_row));
	block->threads = block->pids = block->begins = false;
	block->counters = (struct pfw_pattern_counters){ 0 };
}

void pfw_patterns_block_release(void *patterns_block)
{
	struct pfw_patterns_block *block = patterns_block;

	pfw_text_ids_release(&block->names);
	free(block->row);
	free(block->of_row);
	pfw_pattern_ops_release(&block->ops);
}

/* DFTracer's opens do not say what they returned: they count as opens, of an unknown descriptor. */
#define NO_RET INT64_MIN

/* What is known of a call. */
struct known {
	struct pfw_io_call call;
	int64_t ret;
	uint64_t bytes; /* if `moved` */
	bool moved, wanted;
	const struct pfw_slice *fname; /* NULL: the descriptor has no name */
	/* The summary of the block, which must stay until the block is taken, and the row of
	 * this one; 0: unknown. */
	const struct pfw_summary *summary;
	uint32_t row;
};

/* ---- a line ---- */

/* Whether names joined by '|' have this one. */
static bool has_name(struct pfw_slice names, const char *name)
{
	size_t bytes = strlen(name);

	for (const char *at = names.at, *end = at + names.bytes; at < end;) {
		const char *bar = memchr(at, '|', (size_t)(end - at));

		if ((size_t)((bar ? bar : end) - at) == bytes && !memcmp(at, name, bytes))
			return true;
		at = bar ? bar + 1 : end;
	}
	return false;
}

/* Whether an arg says this: by name, or by the number that older versions and DFTracer write. */
static bool says(const struct pfw_entry *entry, const char *key, const char *name, int64_t mask,
		 int64_t number)
{
	struct pfw_value value;
	int64_t found;

	if (!pfw_entry_arg(entry, key, &value))
		return false;
	if (value.type == PFW_VALUE_STRING)
		return has_name(value.text, name);
	return pfw_value_i64(&value, &found) && (found & mask) == number;
}
#define SAYS(entry, key, number) says(entry, key, #number, -1, number)
#define HAS_FLAG(entry, key, flag) says(entry, key, #flag, flag, flag)

/* Calls of PFW_ROLE_OTHER that do more than look at a file; pwritev2() may append. */
enum what { LOOK, LSEEK, FSEEK, REWIND, FSETPOS, DUP, FCNTL, CLOSE, MMAP, MUNMAP, PWRITEV2 };

static enum what find_what(const struct pfw_slice *name)
{
	static const struct {
		const char *name;
		enum what what;
	} calls[] = { { "lseek", LSEEK },      { "lseek64", LSEEK }, { "fseek", FSEEK },
		      { "fseeko", FSEEK },     { "rewind", REWIND }, { "fsetpos", FSETPOS },
		      { "dup", DUP },	       { "dup2", DUP },	     { "dup3", DUP },
		      { "fcntl", FCNTL },      { "close", CLOSE },   { "fclose", CLOSE },
		      { "mmap", MMAP },	       { "mmap64", MMAP },   { "munmap", MUNMAP },
		      { "pwritev2", PWRITEV2 } };

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (pfw_slice_is(name, calls[i].name))
			return calls[i].what;
	}
	return LOOK;
}

/* The same by a cache; *known is only of this line if its form is 0. */
static struct pfw_patterns_known *what_of(struct pfw_patterns_block *block,
					  const struct pfw_entry *entry,
					  struct pfw_patterns_known *known)
{
	struct pfw_patterns_known *cell = &block->known[entry->form % PFW_ENTRY_NUMBERS];

	if (entry->form && cell->form == entry->form && cell->named == entry->named)
		return cell;
	*known = (struct pfw_patterns_known){ .what = find_what(&entry->name) };
	if (!entry->named || !entry->form)
		return known;
	*cell = (struct pfw_patterns_known){ .named = entry->named,
					     .form = entry->form,
					     .what = known->what,
					     .fd = pfw_entry_place(entry, "fd"),
					     .offset = pfw_entry_place(entry, "offset"),
					     .flags = pfw_entry_place(entry, "flags") };
	return cell;
}

/* An arg, by its place if lines have a form. */
__attribute__((always_inline)) static inline int64_t
number_at(const struct pfw_entry *entry, bool placed, uint8_t place, const char *key)
{
	int64_t number;

	if (!placed)
		return pfw_arg_i64(entry, key, -1);
	return place && pfw_entry_i64(entry, place - 1u, &number) ? number : -1;
}

static void set_dup(struct pfw_pattern_op *op, int64_t fd)
{
	op->dups = fd >= 0;
	op->value = fd;
}

static void set_touched(struct pfw_pattern_op *op, const struct pfw_entry *entry)
{
	op->value = (int64_t)pfw_io_touched(entry);
	op->touches = op->value != 0;
}

/* Calls that move the offset of a descriptor, duplicate it, or map a file. */
static void add_effect(struct pfw_pattern_op *op, const struct pfw_entry *entry, enum what what,
		       int64_t ret)
{
	switch (what) {
	case LSEEK:
		op->seek = ret >= 0 ? PFW_SEEK_TO : PFW_SEEK_NONE;
		op->value = ret;
		break;
	case FSEEK:
		op->value = pfw_arg_i64(entry, "offset", 0);
		op->seek = SAYS(entry, "whence", SEEK_SET)   ? PFW_SEEK_TO
			   : SAYS(entry, "whence", SEEK_CUR) ? PFW_SEEK_BY
							     : PFW_SEEK_LOST;
		break;
	case REWIND:
		op->seek = PFW_SEEK_TO;
		break;
	case FSETPOS:
		op->seek = PFW_SEEK_LOST;
		break;
	case DUP:
		set_dup(op, ret);
		break;
	case FCNTL:
		if (SAYS(entry, "cmd", F_DUPFD) || SAYS(entry, "cmd", F_DUPFD_CLOEXEC))
			set_dup(op, ret);
		op->seek = SAYS(entry, "cmd", F_SETFL) ? PFW_SEEK_FLAGS : PFW_SEEK_NONE;
		op->append = op->seek && HAS_FLAG(entry, "arg", O_APPEND);
		break;
	case CLOSE:
		op->seek = PFW_SEEK_CLOSED;
		break;
	case MMAP:
		op->bytes = pfw_io_mapped(entry);
		break;
	case MUNMAP:
		set_touched(op, entry);
		break;
	case PWRITEV2:
	case LOOK:
		break;
	}
}

static int64_t escaped_name(struct pfw_patterns_block *block, const struct pfw_slice *fname)
{
	char *text = malloc(fname->bytes + 1);
	int64_t number;

	if (!text)
		return -ENOMEM;
	number = pfw_text_ids_of(&block->names, 0, text,
				 pfw_slice_decode(fname, text, fname->bytes + 1));
	free(text);
	return number;
}

/* The number of a file's name.  Calls on one descriptor mostly have the same name: it is cached. */
static int64_t find_name(struct pfw_patterns_block *block, int64_t fd,
			 const struct pfw_slice *fname)
{
	uint32_t *last = &block->last[(uint64_t)fd % PFW_PATTERN_LAST];
	const struct pfw_text_id *name = *last ? &block->names.name[*last - 1] : NULL;
	int64_t number;

	if (fname->escaped)
		return escaped_name(block, fname);
	if (name && name->bytes == fname->bytes &&
	    pfw_hash_same(name->text, fname->at, fname->bytes))
		return *last - 1;
	number = pfw_text_ids_of(&block->names, 0, fname->at, fname->bytes);
	if (number >= 0)
		*last = (uint32_t)number + 1;
	return number;
}

/* The same of any name; -ENOENT: it names no file. */
static int64_t name_of(struct pfw_patterns_block *block, int64_t fd, const struct pfw_slice *fname)
{
	return pfw_io_names_file(fname) ? find_name(block, fd, fname) : -ENOENT;
}

/* The number of the file that has this row in a summary of the block; -ENOENT: it is no file. */
static NOT_INLINE int64_t learn_row(struct pfw_patterns_block *block,
				    const struct pfw_summary *summary, uint32_t row,
				    const struct pfw_slice *fname)
{
	const struct pfw_summary_file *file = &summary->file[row];
	int64_t number = -ENOENT;

	if (PFW_REACH(block->of_row, row, block->of_row_room))
		return -ENOMEM;
	if (fname->bytes <= NAME_MAX_BYTES && pfw_io_names_file(fname))
		number = pfw_text_ids_lend(&block->names, row, file->name, file->name_bytes,
					   file->hash);
	block->summary = summary;
	if (number >= 0 || number == -ENOENT)
		block->of_row[row] = number >= 0 ? (uint32_t)number + 1 : NO_FILE;
	return number;
}

static inline int64_t name_of_row(struct pfw_patterns_block *block,
				  const struct pfw_summary *summary, uint32_t row,
				  const struct pfw_slice *fname)
{
	uint32_t known = row < block->of_row_room ? block->of_row[row] : 0;

	if (!known)
		return learn_row(block, summary, row, fname);
	return known == NO_FILE ? -ENOENT : (int64_t)known - 1;
}

/* The same of a call, whose summary has the hash of its file's name, too. */
static int64_t name_of_call(struct pfw_patterns_block *block, int64_t fd, const struct known *call)
{
	if (!call->row || call->fname->escaped)
		return name_of(block, fd, call->fname);
	return name_of_row(block, call->summary, call->row, call->fname);
}

static int add_op(struct pfw_patterns_block *block, struct pfw_pattern_op *op,
		  const struct pfw_slice *fname)
{
	int64_t name = name_of(block, op->fd, fname);

	if (name < 0)
		return name == -ENOENT ? 0 : -ENOMEM;
	op->name = (uint32_t)name;
	return pfw_pattern_ops_push(&block->ops, op);
}

/* Counts of the whole process since the last such line. */
static void add_counters(struct pfw_pattern_counters *counters, const struct pfw_entry *entry)
{
	uint64_t *into = pfw_slice_is(&entry->name, "io")	 ? counters->io
			 : pfw_slice_is(&entry->name, "storage") ? counters->storage
								 : NULL;
	int64_t read = pfw_arg_i64(entry, "read", -1), written = pfw_arg_i64(entry, "written", -1);

	if (!into || read < 0 || written < 0)
		return;
	pfw_saturate_u64(&into[PFW_SIDE_READ], (uint64_t)read);
	pfw_saturate_u64(&into[PFW_SIDE_WRITE], (uint64_t)written);
	counters->any = true;
}

static void note_pid(struct pfw_patterns_block *block, const struct pfw_entry *entry)
{
	if (!block->ops.count)
		block->pid = entry->pid;
	block->pids |= entry->pid != block->pid;
}

/* The sums of calls shorter than PFW_MIN_DUR. */
static int add_summed(struct pfw_patterns_block *block, const struct pfw_entry *entry, bool wanted)
{
	struct pfw_slice name, fname;
	struct pfw_io_sums sums;
	struct pfw_pattern_op op = { .process = entry->process,
				     .ts_ns = entry->ts_ns,
				     .fd = -1,
				     .summed = true,
				     .wanted = wanted };

	if (!pfw_arg_text(entry, "name", &name) || !pfw_arg_text(entry, "fname", &fname) ||
	    !pfw_io_summed(entry, &sums))
		return 0;
	note_pid(block, entry);
	op.role = pfw_io_calls_find(&block->io, &name).role;
	op.value = (int64_t)sums.calls;
	op.bytes = (uint64_t)sums.bytes;
	op.ns = sums.ns;
	return add_op(block, &op, &fname);
}

/* A file that stayed mapped to the end of its process. */
static int add_mapping(struct pfw_patterns_block *block, const struct pfw_entry *entry, bool wanted)
{
	struct pfw_slice fname;
	struct pfw_pattern_op op = { .process = entry->process,
				     .ts_ns = entry->ts_ns,
				     .fd = -1,
				     .role = PFW_ROLE_OTHER,
				     .wanted = wanted };

	set_touched(&op, entry);
	if (!op.touches || !pfw_arg_text(entry, "fname", &fname))
		return 0;
	note_pid(block, entry);
	return add_op(block, &op, &fname);
}

/* The time of a copy is counted once: at the file that it reads, if that has a name. */
static int add_target(struct pfw_patterns_block *block, const struct pfw_entry *entry,
		      struct pfw_pattern_op op, const struct pfw_slice *source)
{
	struct pfw_slice target;

	if (!pfw_arg_text(entry, "target", &target))
		return 0;
	op.role = PFW_ROLE_WRITE;
	op.target_of_copy = source && pfw_io_names_file(source);
	op.fd = pfw_arg_i64(entry, "fd_out", -1);
	op.value = pfw_arg_i64(entry, "offset_out", -1);
	op.placed = op.value >= 0;
	return add_op(block, &op, &target);
}

/* What a call does, by its role. */
static void set_effect(struct pfw_pattern_op *op, const struct pfw_entry *entry,
		       const struct pfw_patterns_known *what, const struct known *known)
{
	if (op->role == PFW_ROLE_OPEN) {
		op->append = HAS_FLAG(entry, "flags", O_APPEND);
	} else if (op->role == PFW_ROLE_OTHER) {
		add_effect(op, entry, (enum what)what->what, known->ret);
	} else {
		op->moved = known->moved;
		op->bytes = known->moved ? known->bytes : 0;
		op->value = number_at(entry, what->form != 0, what->offset, "offset");
		op->placed = op->value >= 0;
		op->append = what->what == PWRITEV2 && HAS_FLAG(entry, "flags", RWF_APPEND);
	}
}

static NOT_INLINE int add_call(struct pfw_patterns_block *block, const struct pfw_entry *entry,
			       const struct known *known)
{
	struct pfw_patterns_known alone;
	const struct pfw_patterns_known *what = what_of(block, entry, &alone);
	uint8_t role = known->call.role;
	int64_t fd = role != PFW_ROLE_OPEN  ? number_at(entry, what->form != 0, what->fd, "fd")
		     : known->ret == NO_RET ? -1
					    : known->ret;
	int64_t name = known->fname ? name_of_call(block, fd, known) : -ENOENT;
	struct pfw_pattern_op op = { .process = entry->process,
				     .ts_ns = entry->ts_ns,
				     .ns = entry->dur_ns,
				     .fd = fd,
				     .name = (uint32_t)name,
				     .call = true,
				     .role = role,
				     .wanted = known->wanted,
				     .failed = known->ret < 0 && known->ret != NO_RET };

	if (!block->ops.count)
		block->tid = entry->tid;
	block->threads |= entry->tid != block->tid;
	note_pid(block, entry);
	set_effect(&op, entry, what, known);
	if (name == -ENOMEM || (name >= 0 && pfw_pattern_ops_push(&block->ops, &op)))
		return -ENOMEM;
	return role == PFW_ROLE_COPY ? add_target(block, entry, op, known->fname) : 0;
}

/* A line of the tracer's own. */
static int add_own(struct pfw_patterns_block *block, const struct pfw_entry *entry, bool wanted)
{
	block->begins |= pfw_slice_is(&entry->name, "process");
	return pfw_slice_is(&entry->name, "summed")    ? add_summed(block, entry, wanted)
	       : pfw_slice_is(&entry->name, "mapping") ? add_mapping(block, entry, wanted)
						       : 0;
}

static int add_other(struct pfw_patterns_block *block, const struct pfw_entry *entry, bool wanted)
{
	if (entry->ph == 'C') {
		if (wanted && pfw_slice_is(&entry->cat, "COUNTER"))
			add_counters(&block->counters, entry);
		return 0;
	}
	return entry->ph == 'M' && pfw_slice_is(&entry->cat, "pfw") ? add_own(block, entry, wanted)
								    : 0;
}

int pfw_patterns_block_add(struct pfw_patterns_block *block, const struct pfw_entry *entry,
			   const struct pfw_fname_hashes *fnames, bool wanted)
{
	struct known known = { .wanted = wanted };
	struct pfw_value fname;

	if (entry->ph != 'X')
		return add_other(block, entry, wanted);
	if (!pfw_is_file_io(&entry->cat))
		return 0;
	known.call = pfw_io_calls_find(&block->io, &entry->name);
	if (pfw_fname_hashes_find(fnames, entry, &fname) && fname.type == PFW_VALUE_STRING &&
	    fname.text.bytes <= NAME_MAX_BYTES)
		known.fname = &fname.text;
	if (!known.fname && known.call.role != PFW_ROLE_COPY)
		return 0;
	known.ret = pfw_arg_i64(entry, "ret", known.call.role == PFW_ROLE_OPEN ? NO_RET : 0);
	known.moved =
		pfw_io_moved(known.call, known.ret, pfw_io_factor(known.call, entry), &known.bytes);
	return add_call(block, entry, &known);
}

/* ---- a line that a summary knows ---- */

static NOT_INLINE int add_summary_line(struct pfw_patterns_block *block,
				       const struct pfw_entry *entry,
				       const struct pfw_summary *summary)
{
	const struct pfw_summary_last *last = &summary->last;
	const struct pfw_summary_name *name;
	struct pfw_patterns_known alone, *cell;
	struct known known = { .ret = last->ret,
			       .moved = last->moved,
			       .bytes = last->bytes,
			       .summary = summary,
			       .row = last->file,
			       .wanted = true };

	name = last->io && last->name ? &summary->name[last->name] : NULL;
	/* Most opens that say no number return a stream. */
	if (name && !last->call && name->role == PFW_ROLE_OPEN)
		known.ret = pfw_arg_i64(entry, "ret", NO_RET);
	else if (!name || !last->call)
		return pfw_patterns_block_add(block, entry, summary->fnames, true);
	if (!pfw_is_file_io(&entry->cat))
		return 0;
	known.call = (struct pfw_io_call){ .role = name->role, .moves = name->moves };
	if (last->fname.at && last->fname.bytes <= NAME_MAX_BYTES)
		known.fname = &last->fname;
	if (!known.fname && known.call.role != PFW_ROLE_COPY)
		return 0;
	cell = what_of(block, entry, &alone);
	if (name->role != PFW_ROLE_COPY &&
	    (cell->what == LOOK || cell->what == LSEEK || cell->what == CLOSE))
		cell->usual = PFW_PATTERN_BIT(.role = name->role, .wanted = 1, .call = 1,
					      .seek = cell->what == CLOSE ? PFW_SEEK_CLOSED
									  : PFW_SEEK_NONE);
	return add_call(block, entry, &known);
}

/* Whether an open's flags have O_APPEND: mostly they are those of the last one. */
static NOT_INLINE bool appends(struct pfw_patterns_known *cell, const struct pfw_entry *entry)
{
	struct pfw_slice key;
	struct pfw_value flags;
	bool append;

	if (!cell->flags)
		return false;
	pfw_entry_pair(entry, cell->flags - 1u, &key, &flags);
	if (flags.text.bytes == cell->text_bytes && flags.type == PFW_VALUE_STRING &&
	    pfw_hash_same(flags.text.at, cell->text, cell->text_bytes))
		return cell->append;
	append = HAS_FLAG(entry, "flags", O_APPEND);
	if (flags.type == PFW_VALUE_STRING && flags.text.bytes <= sizeof(cell->text)) {
		cell->append = append;
		cell->text_bytes = (uint8_t)flags.text.bytes;
		memcpy(cell->text, flags.text.at, flags.text.bytes);
	}
	return append;
}

/* The effect of a usual call, as set_effect(): its bits; sets *value and *bytes, which are 0. */
static inline uint16_t usual_effect(const struct pfw_entry *entry, struct pfw_patterns_known *cell,
				    const struct pfw_summary_last *last, int64_t *value,
				    uint32_t *bytes)
{
	const struct pfw_pattern_packed usual = { .bits = cell->usual };
	uint16_t bits = usual.bits | (last->ret < 0 ? PFW_PATTERN_BIT(.failed = 1) : 0);

	if (usual.role == PFW_ROLE_READ || usual.role == PFW_ROLE_WRITE) {
		*value = number_at(entry, true, cell->offset, "offset");
		*bytes = (uint32_t)last->bytes; /* 0 if they are not known */
		bits |= *value >= 0 ? PFW_PATTERN_BIT(.placed = 1) : 0;
		bits |= last->moved ? PFW_PATTERN_BIT(.moved = 1) : 0;
	} else if (usual.role == PFW_ROLE_OPEN) {
		bits |= appends(cell, entry) ? PFW_PATTERN_BIT(.append = 1) : 0;
	} else if (cell->what == LSEEK) {
		*value = last->ret;
		bits |= last->ret >= 0 ? PFW_PATTERN_BIT(.seek = PFW_SEEK_TO) : 0;
	}
	return bits;
}

/* The operation is written at once: what is read again before it is in the cache waits for it. */
static inline void add_usual(struct pfw_patterns_block *block, const struct pfw_entry *entry,
			     struct pfw_patterns_known *cell, const struct pfw_summary_last *last,
			     int16_t fd, uint32_t name)
{
	int64_t value = 0;
	uint32_t bytes = 0;
	uint16_t bits = usual_effect(entry, cell, last, &value, &bytes);

	block->threads |= entry->tid != block->tid;
	block->pids |= entry->pid != block->pid;
	block->ops.at[block->ops.count++] =
		(struct pfw_pattern_packed){ .ts_ns = entry->ts_ns,
					     .value = value,
					     .name = name,
					     .ns = (uint32_t)entry->dur_ns,
					     .bytes = bytes,
					     .fd = fd,
					     .bits = bits };
}

int pfw_patterns_block_add_summed(void *user, const struct pfw_entry *entry,
				  const struct pfw_summary *summary)
{
	struct pfw_patterns_block *block = user;
	const struct pfw_summary_last *last = &summary->last;
	struct pfw_patterns_known *cell = &block->known[entry->form % PFW_ENTRY_NUMBERS];
	struct pfw_pattern_packed usual;
	int64_t name, fd;

	/* A usual call of a known form, on a file, that is not the block's first and has room. */
	if (!last->call || !last->file || last->fname.escaped || !entry->form ||
	    cell->form != entry->form || cell->named != entry->named || !cell->usual ||
	    block->ops.count - 1 >= block->ops.room - 1 || entry->process != block->ops.process)
		return add_summary_line(block, entry, summary);
	usual.bits = cell->usual;
	fd = usual.role == PFW_ROLE_OPEN ? last->ret : number_at(entry, true, cell->fd, "fd");
	if (!pfw_pattern_fits(fd, entry->dur_ns, last->bytes))
		return add_summary_line(block, entry, summary);
	name = name_of_row(block, summary, last->file, &last->fname);
	if (name < 0)
		return name == -ENOENT ? 0 : -ENOMEM;
	add_usual(block, entry, cell, last, (int16_t)fd, (uint32_t)name);
	return 0;
}
