/* recorder/stack/python.c - the interpreter's frames, read in place; see python.h.
 *
 * Only the thread itself changes its frames, and they hold their code objects.  So a call that the
 * interpreter has made, even without Python's lock, finds them whole, and reads them as they are.
 * The names and the line of an instruction are worked out once.  What says that they still hold is
 * in the check of the kept entry: the code object and what it points to.
 */
#include "recorder/stack/python.h"

#include <dlfcn.h>
#include <string.h>

#include "common/base/os.h"
#include "common/base/text.h"
#include "recorder/guest/peek.h"
#include "recorder/spool/stacks.h"
#include "recorder/stack/modules.h"

#define NONE 0xffffu
#define LOOKS_MAX 1024u /* frames, with those that are not Python code */
#define NAME_CHARS 1000u
#define FILE_CHARS 4000u

/* Where a version keeps what is read here, in bytes; checked against its headers. */
struct layout {
	uint16_t version;    /* 3 * 256 + minor */
	uint16_t thread;     /* PyThreadState: the current frame, or the struct below */
	uint16_t cframe;     /* the current frame in it; NONE = there is no such struct */
	uint16_t code, back; /* of a frame: the code object, the caller's frame */
	uint16_t at;	     /* the instruction: its address; its number in 3.10 */
	uint16_t owner;	     /* the owner of the frame; NONE = no owner */
	uint16_t owners;     /* from this owner on it is none of Python code */
	uint16_t file, name, first, lines; /* PyCodeObject */
	uint16_t units;			   /* the instructions; NONE: they are numbered */
	uint16_t ascii, compact;	   /* sizes of the heads of strings */
};

static const struct layout layouts[] = {
	{ 0x30a, 24, NONE, 32, 24, 96, NONE, 0, 104, 112, 40, 120, NONE, 48, 72 },
	{ 0x30b, 56, 8, 32, 48, 56, 69, 3, 112, 128, 72, 136, 184, 48, 72 },
	{ 0x30c, 56, 0, 0, 8, 56, 70, 3, 112, 128, 68, 136, 192, 40, 56 },
	{ 0x30d, 72, NONE, 0, 8, 56, 70, 3, 112, 128, 68, 136, 200, 40, 56 },
};

/* Words of the table that later versions have of their own layout (_Py_DebugOffsets, at the begin of
 * _PyRuntime), by the members above; the last two are the sizes of a string's heads. */
static const struct layout owns[] = {
	{ 0x30e, 26, NONE, 33, 32, 34, 36, 3, 40, 42, 44, 43, 48, 80, 77 },
	{ 0x30f, 26, NONE, 41, 40, 42, 44, 3, 48, 50, 52, 51, 56, 92, 89 },
};
enum { OWN_FREE_THREADED = 2 };

static struct {
	const struct layout *layout; /* NULL: no interpreter */
	struct layout own;	     /* of 3.14 and later */
	uint64_t (*thread_state)(void);
	uint64_t code_type;
	uint64_t start, end;	/* where it is mapped */
	_Atomic bool is_proven; /* the layout fits: its frames are what they should be */
} python;

/* ---- memory ---- */

static __attribute__((no_sanitize("address", "thread"))) bool get(uint64_t at, void *to,
								  size_t bytes, bool careful)
{
	if (careful)
		return pfw_peek(to, (const void *)(uintptr_t)at, bytes);
	__builtin_memcpy(to, (const void *)(uintptr_t)at, bytes);
	return true;
}

static bool get_word(uint64_t at, uint64_t *word, bool careful)
{
	return get(at, word, sizeof(*word), careful);
}

/* Bytes of an object, one after the other. */
struct bytes {
	uint64_t at, end;
	uint8_t buf[32];
	unsigned next, have;
	bool careful;
};

static bool next_byte(struct bytes *bytes, uint8_t *byte)
{
	if (bytes->next == bytes->have) {
		uint64_t left = bytes->end - bytes->at;

		bytes->have = left < sizeof(bytes->buf) ? (unsigned)left : sizeof(bytes->buf);
		bytes->next = 0;
		if (!bytes->have || !get(bytes->at, bytes->buf, bytes->have, bytes->careful)) {
			bytes->have = 0;
			return false;
		}
		bytes->at += bytes->have;
	}
	*byte = bytes->buf[bytes->next++];
	return true;
}

/* ---- lines ---- */

/* A code object with what tells it from another one at its place. */
struct code {
	uint64_t object, file, name, lines, hash;
	int32_t first;
	bool careful;
};

static bool begin_lines(struct bytes *bytes, const struct code *code)
{
	uint64_t size;

	*bytes = (struct bytes){ .at = code->lines + 32, .careful = code->careful };
	if (!get_word(code->lines + 16, &size, code->careful))
		return false;
	bytes->end = bytes->at + size;
	return true;
}

/* Six bits a byte, the lowest first. */
static uint32_t varint(struct bytes *bytes)
{
	uint32_t value = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		if (!next_byte(bytes, &byte))
			return value;
		value |= shift < 32 ? (uint32_t)(byte & 63) << shift : 0;
		shift += 6;
	} while (byte & 64);
	return value;
}

static int32_t signed_varint(struct bytes *bytes)
{
	uint32_t value = varint(bytes);

	return value & 1 ? -(int32_t)(value >> 1) : (int32_t)(value >> 1);
}

static void skip(struct bytes *bytes, unsigned count)
{
	uint8_t byte;

	while (count-- && next_byte(bytes, &byte))
		;
}

/* By how many lines an entry of the table (3.11 and later) goes on from the one before it. */
static int32_t line_step(struct bytes *bytes, unsigned kind)
{
	int32_t step = 0;

	if (kind < 10) {
		skip(bytes, 1);
	} else if (kind < 13) {
		step = (int32_t)kind - 10;
		skip(bytes, 2);
	} else if (kind < 15) {
		step = signed_varint(bytes);
	}
	if (kind == 14) {
		varint(bytes);
		varint(bytes);
		varint(bytes);
	}
	return step;
}

/* The line of instruction n; the table's entries say to how many instructions they apply. */
static uint32_t line_of(const struct code *code, uint64_t n)
{
	int32_t line = code->first, known = code->first;
	struct bytes bytes;
	uint64_t end = 0;
	uint8_t head;

	if (!begin_lines(&bytes, code))
		return (uint32_t)code->first;
	while (end <= n && next_byte(&bytes, &head)) {
		unsigned kind = head >> 3 & 15;

		end += (head & 7) + 1u;
		line += line_step(&bytes, kind);
		if (kind != 15)
			known = line;
	}
	return (uint32_t)known;
}

/* The table of 3.10: pairs of bytes, of code and of lines. */
static uint32_t line_of_310(const struct code *code, uint64_t n)
{
	int32_t line = code->first, known = code->first;
	struct bytes bytes;
	uint64_t end = 0;
	uint8_t length, step;

	if (!begin_lines(&bytes, code))
		return (uint32_t)code->first;
	while (end <= 2 * n && next_byte(&bytes, &length) && next_byte(&bytes, &step)) {
		end += length;
		if (step == 0x80)
			continue;
		line += (int8_t)step;
		known = line;
	}
	return (uint32_t)known;
}

/* ---- names ---- */

/* The value of a string's character of 1, 2 or 4 bytes. */
static bool next_char(struct bytes *bytes, unsigned width, uint32_t *value)
{
	uint8_t byte;

	*value = 0;
	for (unsigned i = 0; i < width; i++) {
		if (!next_byte(bytes, &byte))
			return false;
		*value |= (uint32_t)byte << 8 * i;
	}
	return true;
}

/* Append a Python string, cut to so many characters of at most four bytes. */
static char *put_string(char *out, uint64_t string, uint32_t chars, bool careful)
{
	uint64_t length;
	uint32_t state, value;
	struct bytes bytes = { .careful = careful };
	unsigned width;

	if (!get_word(string + 16, &length, careful) ||
	    !get(string + 32, &state, sizeof(state), careful) || !(state & 32))
		return out;
	width = state >> 2 & 7;
	bytes.at = string + (state & 64 ? python.layout->ascii : python.layout->compact);
	bytes.end = bytes.at + length * width;
	while (chars-- && next_char(&bytes, width, &value))
		out = pfw_text_utf8(out, value);
	return out;
}

static int entry_of(const struct code *code)
{
	const uint32_t room = (FILE_CHARS + NAME_CHARS) * 4;
	char *text = pfw_stacks_text_take(room), *file_end, *end;

	if (!text)
		return -1;
	file_end = put_string(text, code->file, FILE_CHARS, code->careful);
	end = put_string(file_end, code->name, NAME_CHARS, code->careful);
	pfw_stacks_text_return(end, room - (uint32_t)(end - text));
	return pfw_stacks_code(text, (uint32_t)(file_end - text), (uint32_t)(end - file_end));
}

/* ---- frames ---- */

#define KEPT 4096u

/* Frames by their instruction, as the rules of native code are kept. */
static struct {
	_Atomic uint64_t check, frame;
} kept[KEPT];

static __attribute__((noinline)) uint64_t make_frame(const struct code *code, uint64_t instruction)
{
	int entry = entry_of(code);
	uint32_t line = python.layout->units == NONE ? line_of_310(code, instruction)
						     : line_of(code, instruction);

	if (entry < 0)
		return pfw_frame(PFW_FRAME_CUT, 0);
	return pfw_frame(PFW_FRAME_PYTHON,
			 (uint64_t)(unsigned)entry << PFW_FRAME_CODE_SHIFT | line);
}

static uint64_t frame_of(const struct code *code, uint64_t instruction)
{
	uint64_t key = pfw_stacks_mix(code->object, instruction), frame;
	unsigned at;

	key = pfw_stacks_mix(key ^ code->file, code->name ^ pfw_stacks_epoch);
	key = pfw_stacks_mix(key ^ code->lines, code->hash ^ (uint64_t)(uint32_t)code->first << 32);
	at = (unsigned)(key >> 32) % KEPT;
	frame = atomic_load_explicit(&kept[at].frame, memory_order_relaxed);
	if ((atomic_load_explicit(&kept[at].check, memory_order_relaxed) ^ frame) == key)
		return frame;
	frame = make_frame(code, instruction);
	if (frame >> PFW_FRAME_KIND_SHIFT == PFW_FRAME_PYTHON) {
		atomic_store_explicit(&kept[at].check, key ^ frame, memory_order_relaxed);
		atomic_store_explicit(&kept[at].frame, frame, memory_order_relaxed);
	}
	return frame;
}

struct interpreter_frame {
	uint64_t code, back, instruction;
	uint8_t owner;
};

static bool read_frame(uint64_t at, struct interpreter_frame *frame, bool careful)
{
	const struct layout *layout = python.layout;

	frame->owner = 0;
	if (!get_word(at + layout->code, &frame->code, careful) ||
	    !get_word(at + layout->back, &frame->back, careful) ||
	    !get_word(at + layout->at, &frame->instruction, careful) ||
	    (layout->owner != NONE && !get(at + layout->owner, &frame->owner, 1, careful)))
		return false;
	frame->code &= ~7ull; /* a reference may have a tag */
	return true;
}

/* False: it is no Python code's. */
static bool read_code(struct interpreter_frame *frame, struct code *code)
{
	const struct layout *layout = python.layout;
	bool careful = code->careful;
	uint64_t type;

	if (layout->owner != NONE && frame->owner >= layout->owners)
		return false;
	code->object = frame->code;
	if (!code->object || !get_word(code->object + 8, &type, careful) ||
	    type != python.code_type ||
	    !get_word(code->object + layout->file, &code->file, careful) ||
	    !get_word(code->object + layout->name, &code->name, careful) ||
	    !get_word(code->object + layout->lines, &code->lines, careful) ||
	    !get(code->object + layout->first, &code->first, sizeof(code->first), careful) ||
	    !code->name || !get_word(code->name + 24, &code->hash, careful))
		return false;
	if (layout->units == NONE)
		frame->instruction &= UINT32_MAX;
	else
		frame->instruction = (frame->instruction - code->object - layout->units) / 2;
	/* Before the first instruction: 3.10 has -1, later versions the address before. */
	if (frame->instruction > INT32_MAX)
		frame->instruction = 0;
	return true;
}

static uint64_t newest_frame(bool careful)
{
	uint64_t state = python.thread_state(), at;

	if (!state || !get_word(state + python.layout->thread, &at, careful) || !at)
		return 0;
	if (python.layout->cframe != NONE && !get_word(at + python.layout->cframe, &at, careful))
		return 0;
	return at;
}

unsigned pfw_python_frames(uint64_t *out, unsigned room, bool careful)
{
	struct interpreter_frame frame;
	bool proven = atomic_load_explicit(&python.is_proven, memory_order_relaxed);
	struct code code = { .careful = careful || !proven };
	unsigned count = 0;
	uint64_t at;

	if (!python.layout)
		return 0;
	at = newest_frame(code.careful);
	for (unsigned looks = 0; at && looks < LOOKS_MAX; looks++, at = frame.back) {
		if (!read_frame(at, &frame, code.careful))
			return 0;
		if (!read_code(&frame, &code))
			continue;
		if (count == room) {
			out[room - 1] = pfw_frame(PFW_FRAME_CUT, 0);
			break;
		}
		out[count++] = frame_of(&code, frame.instruction);
	}
	if (count && !proven && !careful)
		atomic_store_explicit(&python.is_proven, true, memory_order_relaxed);
	return count;
}

/* ---- the interpreter ---- */

bool pfw_python_has(uint64_t address)
{
	return address - python.start < python.end - python.start;
}

/* "3.11.7 (main, …": 3 * 256 + 11; 0 = unknown. */
static unsigned version_of(const char *text)
{
	unsigned minor = 0;

	if (strncmp(text, "3.", 2) != 0)
		return 0;
	for (text += 2; *text >= '0' && *text <= '9'; text++)
		minor = minor * 10 + (unsigned)(*text - '0');
	return minor < 256 ? 3 * 256 + minor : 0;
}

/* The layout that the interpreter itself tells. */
static const struct layout *read_own(const uint64_t *own, const struct layout *words)
{
	struct layout *layout = &python.own;
	uint16_t *member[] = { &layout->thread, &layout->code,	&layout->back,	&layout->at,
			       &layout->owner,	&layout->file,	&layout->name,	&layout->first,
			       &layout->lines,	&layout->units, &layout->ascii, &layout->compact };

	*layout = *words;
	for (size_t i = 0; i < PFW_ARRAY_LEN(member); i++)
		*member[i] = (uint16_t)own[*member[i]];
	layout->compact -= sizeof(void *); /* it is told with a pointer to other text */
	return layout;
}

/* NULL: frames of this version cannot be read. */
static const struct layout *layout_of(unsigned version)
{
	const uint64_t *own = version >= 0x30d ? dlsym(RTLD_DEFAULT, "_PyRuntime") : NULL;

	if (version >= 0x30d && (!own || memcmp(own, "xdebugpy", 8) || own[OWN_FREE_THREADED]))
		return NULL;
	for (size_t i = 0; i < PFW_ARRAY_LEN(owns); i++)
		if (owns[i].version == version)
			return read_own(own, &owns[i]);
	for (size_t i = 0; i < PFW_ARRAY_LEN(layouts); i++)
		if (layouts[i].version == version)
			return &layouts[i];
	return NULL;
}

void pfw_python_init(void)
{
	const char *(*get_version)(void);
	struct pfw_module module;

	*(void **)&get_version = dlsym(RTLD_DEFAULT, "Py_GetVersion");
	*(void **)&python.thread_state = dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
	python.code_type = (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "PyCode_Type");
	if (!get_version || !python.thread_state || !python.code_type ||
	    !pfw_module_find(&module, (uint64_t)(uintptr_t)get_version))
		return;
	python.start = module.cfi.start;
	python.end = module.cfi.end;
	python.layout = layout_of(version_of(get_version()));
}
