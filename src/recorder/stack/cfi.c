/* recorder/stack/cfi.c - finds and runs the call frame instructions of an address; see cfi.h. */
#include "recorder/stack/cfi.h"

#include "common/base/os.h"
#include "recorder/guest/peek.h"

/* DWARF's numbers of the registers. */
#ifdef __x86_64__
#define SP 7u
#define FP 6u
#define RA 16u
#else
#define SP 31u
#define FP 29u
#define RA 30u
#endif

#define REMEMBERED 3
#define STEPS_MAX 4096u /* instructions of one program: a damaged one must end */

/* ---- bytes of the module ---- */

struct reader {
	const struct pfw_cfi *cfi;
	uint64_t at, end; /* what may be read */
	uint64_t from;	  /* of the bytes below */
	uint8_t bytes[32];
	uint8_t have;
	bool bad; /* something was beyond the end: what was read is 0 */
};

static bool fill(struct reader *reader)
{
	uint64_t left = reader->end - reader->at;
	size_t bytes = left < sizeof(reader->bytes) ? (size_t)left : sizeof(reader->bytes);

	if (reader->at >= reader->end || reader->at < reader->cfi->start ||
	    reader->end > reader->cfi->end || !pfw_peek(reader->bytes, (void *)reader->at, bytes))
		return false;
	reader->from = reader->at;
	reader->have = (uint8_t)bytes;
	return true;
}

static uint8_t byte(struct reader *reader)
{
	if (!reader->bad && reader->at - reader->from >= reader->have)
		reader->bad = !fill(reader);
	return reader->bad ? 0 : reader->bytes[reader->at++ - reader->from];
}

static uint64_t fixed(struct reader *reader, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)byte(reader) << 8 * i;
	return value;
}

/* Two functions: joined, they take 24 bytes more of the program's stack. */
static uint64_t uleb(struct reader *reader)
{
	uint64_t value = 0;
	uint8_t next;
	unsigned shift = 0;

	do {
		next = byte(reader);
		value |= shift < 64 ? (uint64_t)(next & 0x7f) << shift : 0;
		shift += 7;
	} while (next & 0x80 && !reader->bad);
	return value;
}

static int64_t sleb(struct reader *reader)
{
	uint64_t value = 0;
	uint8_t next;
	unsigned shift = 0;

	do {
		next = byte(reader);
		value |= shift < 64 ? (uint64_t)(next & 0x7f) << shift : 0;
		shift += 7;
	} while (next & 0x80 && !reader->bad);
	if (next & 0x40 && shift < 64)
		value |= ~0ull << shift;
	return (int64_t)value;
}

/* A pointer in one of the encodings that linkers write (DW_EH_PE_...). */
static uint64_t pointer(struct reader *reader, uint8_t encoding, uint64_t data)
{
	uint64_t at = reader->at, value;

	switch (encoding & 0x0f) {
	case 0x00:
	case 0x04:
	case 0x0c:
		value = fixed(reader, 8);
		break;
	case 0x02:
		value = fixed(reader, 2);
		break;
	case 0x0a:
		value = (uint64_t)(int16_t)fixed(reader, 2);
		break;
	case 0x03:
		value = fixed(reader, 4);
		break;
	case 0x0b:
		value = (uint64_t)(int32_t)fixed(reader, 4);
		break;
	case 0x01:
		value = uleb(reader);
		break;
	default:
		reader->bad = true;
		return 0;
	}
	if ((encoding & 0x70) == 0x10)
		value += at;
	else if ((encoding & 0x70) == 0x30)
		value += data;
	return value;
}

static void read_at(struct reader *reader, uint64_t at, uint64_t end)
{
	reader->at = reader->from = at;
	reader->end = end;
	reader->have = 0;
}

static void read_from(struct reader *reader, const struct pfw_cfi *cfi, uint64_t at)
{
	reader->cfi = cfi;
	reader->bad = false;
	read_at(reader, at, cfi->end);
}

/* ---- the table ---- */

#define SORTED_TABLE 0x3b /* DW_EH_PE_datarel | DW_EH_PE_sdata4: what all linkers write */

/* The first address of entry n of the sorted table, and its description. */
static bool entry_of(const struct pfw_cfi *cfi, uint64_t table, uint64_t n, uint64_t *first,
		     uint64_t *description)
{
	int32_t entry[2];

	if (table + (n + 1) * 8 > cfi->end || !pfw_peek(entry, (void *)(table + n * 8), 8))
		return false;
	*first = cfi->header + (uint64_t)entry[0];
	*description = cfi->header + (uint64_t)entry[1];
	return true;
}

/* The description (FDE) of the code at pc; 0 = none. */
static __attribute__((noinline)) uint64_t find(const struct pfw_cfi *cfi, uint64_t pc)
{
	struct reader reader;
	uint8_t version, frame, count, table;
	uint64_t low = 0, high, at, first, found = 0;

	read_from(&reader, cfi, cfi->header);
	version = byte(&reader);
	frame = byte(&reader);
	count = byte(&reader);
	table = byte(&reader);
	if (version != 1 || table != SORTED_TABLE)
		return 0;
	pointer(&reader, frame, cfi->header);
	high = pointer(&reader, count, cfi->header);
	at = reader.at;
	if (reader.bad || high > (cfi->end - cfi->start) / 8)
		return 0;
	while (low < high) {
		uint64_t middle = (low + high) / 2, description;

		if (!entry_of(cfi, at, middle, &first, &description))
			return 0;
		if (first <= pc) {
			found = description;
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return found;
}

/* ---- the program ---- */

enum cfa_kind { CFA_UNKNOWN, CFA_SP, CFA_FP, CFA_FP_AT };
enum ra_kind { RA_SAME, RA_SAVED, RA_UNDEFINED };

struct row {
	int32_t cfa_offset;
	int32_t fp, ra;	 /* offsets from the CFA, in bytes; fp 0 = unchanged */
	uint8_t cfa;	 /* enum cfa_kind */
	uint8_t returns; /* enum ra_kind */
	bool fp_by_fp;	 /* fp is an offset from FP */
};

struct program {
	uint64_t code_align;
	int64_t data_align;
	uint64_t location, pc;
	uint8_t encoding; /* of pointers */
	bool signal;	  /* the kernel made the frame */
	struct row row, first, remembered[REMEMBERED];
	unsigned depth;
};

static void set_cfa(struct row *row, uint64_t reg, int64_t offset)
{
	row->cfa = reg == SP ? CFA_SP : reg == FP ? CFA_FP : CFA_UNKNOWN;
	row->cfa_offset = (int32_t)offset;
}

static void save(struct row *row, uint64_t reg, int64_t offset)
{
	if (reg == FP) {
		row->fp = (int32_t)offset;
		row->fp_by_fp = false;
	}
	if (reg == RA) {
		row->ra = (int32_t)offset;
		row->returns = RA_SAVED;
	}
}

static void restore(struct program *program, uint64_t reg)
{
	if (reg == FP) {
		program->row.fp = program->first.fp;
		program->row.fp_by_fp = program->first.fp_by_fp;
	}
	if (reg == RA) {
		program->row.ra = program->first.ra;
		program->row.returns = program->first.returns;
	}
}

/* A rule that is a program of its own.  Functions that align their stack have two: the CFA is the
 * word at FP + n, and FP is saved at FP + n.  *offset gets this n; *followed, whether there is a
 * word to be read.  False: it is none of these. */
static bool by_expression(struct reader *reader, int64_t *offset, bool *followed)
{
	uint64_t bytes = uleb(reader), end = reader->at + bytes;
	bool known = byte(reader) == 0x70 + FP;

	*offset = sleb(reader);
	*followed = reader->at < end && byte(reader) == 0x06;
	known = known && reader->at == end;
	reader->at = end;
	reader->have = 0;
	return known;
}

static void cfa_by_expression(struct reader *reader, struct row *row)
{
	int64_t offset;
	bool followed;

	row->cfa = by_expression(reader, &offset, &followed) && followed ? CFA_FP_AT : CFA_UNKNOWN;
	row->cfa_offset = (int32_t)offset;
}

/* Of other registers than FP and RA nothing is kept; those of a signal's frame are known.  `saved`:
 * the value is at the address. */
static void by_expression_of(struct reader *reader, struct program *program, uint64_t reg,
			     bool saved)
{
	int64_t offset;
	bool followed, known = by_expression(reader, &offset, &followed) && !followed && saved;

	if (reg == FP && known) {
		program->row.fp = (int32_t)offset;
		program->row.fp_by_fp = true;
	} else if (reg == FP || reg == RA) {
		reader->bad |= !program->signal;
	}
}

static void advance(struct program *program, uint64_t by)
{
	program->location += by * program->code_align;
}

/* Instructions that change where the code or the table is.  False: it is none of them. */
static bool run_position(struct reader *reader, struct program *program, uint8_t op)
{
	switch (op) {
	case 0x00: /* nop */
	case 0x2d: /* window_save; of aarch64: the return address is signed */
		return true;
	case 0x01:
		program->location = pointer(reader, program->encoding, 0);
		return true;
	case 0x02:
		advance(program, byte(reader));
		return true;
	case 0x03:
		advance(program, fixed(reader, 2));
		return true;
	case 0x04:
		advance(program, fixed(reader, 4));
		return true;
	case 0x0a:
		reader->bad |= program->depth == REMEMBERED;
		if (!reader->bad)
			program->remembered[program->depth++] = program->row;
		return true;
	case 0x0b:
		reader->bad |= !program->depth;
		if (!reader->bad)
			program->row = program->remembered[--program->depth];
		return true;
	case 0x2e: /* args_size */
		uleb(reader);
		return true;
	default:
		return false;
	}
}

/* Instructions that say what the canonical frame address is.  False: it is none of them. */
static bool run_address(struct reader *reader, struct program *program, uint8_t op)
{
	struct row *row = &program->row;
	uint64_t reg;

	switch (op) {
	case 0x0c:
		reg = uleb(reader);
		set_cfa(row, reg, (int64_t)uleb(reader));
		return true;
	case 0x0d:
		set_cfa(row, uleb(reader), row->cfa_offset);
		return true;
	case 0x0e:
		row->cfa_offset = (int32_t)uleb(reader);
		return true;
	case 0x0f:
		cfa_by_expression(reader, row);
		return true;
	case 0x12:
		reg = uleb(reader);
		set_cfa(row, reg, sleb(reader) * program->data_align);
		return true;
	case 0x13:
		row->cfa_offset = (int32_t)(sleb(reader) * program->data_align);
		return true;
	default:
		return false;
	}
}

/* Instructions that say where a register is. */
static void run_register(struct reader *reader, struct program *program, uint8_t op)
{
	uint64_t reg = uleb(reader);

	switch (op) {
	case 0x05: /* offset_extended */
		save(&program->row, reg, (int64_t)uleb(reader) * program->data_align);
		break;
	case 0x06:
		restore(program, reg);
		break;
	case 0x07: /* undefined */
		if (reg == RA)
			program->row.returns = RA_UNDEFINED;
		break;
	case 0x08: /* same_value */
		if (reg == RA)
			program->row.returns = RA_SAME;
		else
			save(&program->row, reg, 0);
		break;
	case 0x09: /* in another register */
		uleb(reader);
		reader->bad |= reg == FP || reg == RA;
		break;
	case 0x10:
	case 0x16:
		by_expression_of(reader, program, reg, op == 0x10);
		break;
	case 0x11: /* offset_extended_sf */
		save(&program->row, reg, sleb(reader) * program->data_align);
		break;
	default:
		reader->bad = true;
	}
}

/* Run instructions up to the row of pc. */
static bool run(struct reader *reader, struct program *program)
{
	for (unsigned steps = 0; reader->at < reader->end && !reader->bad; steps++) {
		uint8_t op = byte(reader), low = op & 0x3f;

		if (steps > STEPS_MAX)
			return false;
		if (op >> 6 == 1)
			advance(program, low);
		else if (op >> 6 == 2)
			save(&program->row, low, (int64_t)uleb(reader) * program->data_align);
		else if (op >> 6 == 3)
			restore(program, low);
		else if (!run_position(reader, program, op) && !run_address(reader, program, op))
			run_register(reader, program, op);
		if (program->location > program->pc)
			return !reader->bad; /* the next row begins after pc */
	}
	return !reader->bad;
}

/* Read the head that descriptions share (CIE), and run its instructions. */
static bool begin(struct program *program, struct reader *reader)
{
	uint64_t bytes = fixed(reader, 4);
	uint8_t augmentation[8], version;
	unsigned letters = 0;

	reader->end = reader->at + bytes;
	if (fixed(reader, 4) || bytes > 0xffff)
		return false;
	version = byte(reader);
	while ((augmentation[letters] = byte(reader)) && ++letters < sizeof(augmentation))
		;
	program->code_align = uleb(reader);
	program->data_align = sleb(reader);
	if (version == 1)
		byte(reader);
	else
		uleb(reader);
	if ((version != 1 && version != 3) || letters == sizeof(augmentation) ||
	    (letters && augmentation[0] != 'z'))
		return false;
	if (letters)
		uleb(reader);
	for (unsigned i = 1; i < letters; i++) {
		if (augmentation[i] == 'R')
			program->encoding = byte(reader);
		else if (augmentation[i] == 'P')
			pointer(reader, byte(reader), 0);
		else if (augmentation[i] == 'L')
			byte(reader);
		else if (augmentation[i] == 'S')
			program->signal = true;
		else if (augmentation[i] != 'B')
			return false;
	}
	program->location = 0;
	return run(reader, program);
}

/* Run the description at `at`, which must be of code with pc in it. */
static __attribute__((noinline)) bool describe(struct program *program, const struct pfw_cfi *cfi,
					       uint64_t at)
{
	uint64_t bytes, end, first, length, pc = program->pc;
	struct reader reader;

	read_from(&reader, cfi, at);
	bytes = fixed(&reader, 4);
	at = reader.at;
	end = at + bytes;
	at -= fixed(&reader, 4);
	if (reader.bad || bytes == UINT32_MAX)
		return false;
	program->pc = UINT64_MAX; /* all of the head's instructions */
	read_at(&reader, at, cfi->end);
	if (!begin(program, &reader))
		return false;
	read_at(&reader, end - bytes + 4, end);
	program->pc = pc;
	program->first = program->row;
	first = pointer(&reader, program->encoding, 0);
	length = pointer(&reader, program->encoding & 0x0f, 0);
	if (reader.bad || pc < first || pc - first >= length)
		return false;
	bytes = uleb(&reader); /* the augmentation's, skipped */
	read_at(&reader, reader.at + bytes, end);
	program->location = first;
	return run(&reader, program);
}

/* ---- the rule ---- */

static struct pfw_rule rule_of(const struct program *program)
{
	static const uint8_t kinds[] = {
		[CFA_SP] = PFW_RULE_SP, [CFA_FP] = PFW_RULE_FP, [CFA_FP_AT] = PFW_RULE_FP_AT
	};
	const struct row *row = &program->row;
	struct pfw_rule rule = { .offset = row->cfa_offset, .kind = kinds[row->cfa] };
	int32_t ra = (row->fp_by_fp ? row->ra : row->ra - row->fp) / 8;

	if (program->signal)
		return (struct pfw_rule){ .kind = PFW_RULE_SIGNAL };
	if (row->returns == RA_UNDEFINED)
		return (struct pfw_rule){ .kind = PFW_RULE_END };
	if (row->returns != RA_SAVED || row->fp_by_fp != (row->cfa == CFA_FP_AT) || row->fp % 8 ||
	    row->ra % 8 || row->fp / 8 != (int16_t)(row->fp / 8) || ra != (int8_t)ra)
		return (struct pfw_rule){ .kind = PFW_RULE_NONE };
	rule.fp_words = (int16_t)(row->fp / 8);
	rule.ra_words = (int8_t)ra;
	return rule;
}

struct pfw_rule pfw_cfi_rule(const struct pfw_cfi *cfi, uint64_t pc)
{
	struct program program = { .pc = pc };
	uint64_t description = cfi->header ? find(cfi, pc) : 0;

	if (!description || !describe(&program, cfi, description))
		return (struct pfw_rule){ .kind = PFW_RULE_NONE };
	return rule_of(&program);
}
