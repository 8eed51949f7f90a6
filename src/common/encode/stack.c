/* common/encode/stack.c - the stack of a call as args.stack, and the lines of its modules. */
#include "common/encode/frame.h"

#define FRAME_FIXED 64u /* quotes, comma, and a number */
#define CUT "\"...\""

static struct pfw_stack_module *module_of(struct pfw_json *json, uint64_t frame)
{
	uint64_t number = frame >> PFW_FRAME_MODULE_SHIFT;

	return number < PFW_STACK_MODULES ? &json->stacks->module[number] : NULL;
}

static char *put_hex(char *out, uint64_t value)
{
	unsigned digits = 1;

	while (digits < 16 && value >> 4 * digits)
		digits++;
	while (digits--)
		*out++ = "0123456789abcdef"[value >> 4 * digits & 15];
	return out;
}

/* ---- the lines of modules ---- */

static char *module_line(struct pfw_json *json, char *out, struct pfw_stack_module *module,
			 const char *path, uint32_t bytes, uint64_t ts_ns)
{
	char hex[2 * PFW_BUILD_ID_MAX], *end = hex;

	atomic_store_explicit(&module->line, json->next_id, memory_order_relaxed);
	out = pfw_json_begin(json, out, "module", "M", json->pid, ts_ns);
	out = pfw_json_key_fname(out, path, bytes);
	for (uint32_t i = 0; i < module->build_id_bytes && i < PFW_BUILD_ID_MAX; i++) {
		*end++ = "0123456789abcdef"[module->build_id[i] >> 4];
		*end++ = "0123456789abcdef"[module->build_id[i] & 15];
	}
	if (end > hex)
		out = pfw_json_key_str(out, "build_id", hex, (size_t)(end - hex));
	return pfw_json_end(json, out);
}

/* A module that was unloaded and loaded again has another entry, and needs no other line. */
static uint64_t line_of_same(const struct pfw_stacks_chunk *stacks,
			     const struct pfw_stack_module *module)
{
	struct pfw_stack_text path = pfw_stack_path(module);
	const char *text = pfw_stack_text(stacks, path);

	for (unsigned i = 0; i < PFW_STACK_MODULES; i++) {
		const struct pfw_stack_module *other = &stacks->module[i];
		struct pfw_stack_text its = pfw_stack_path(other);
		const char *name = pfw_stack_text(stacks, its);
		uint64_t line = atomic_load_explicit(&other->line, memory_order_relaxed);

		if (line && its.bytes == path.bytes && name && !memcmp(name, text, path.bytes) &&
		    !memcmp(other->build_id, module->build_id, PFW_BUILD_ID_MAX))
			return line;
	}
	return 0;
}

/* Give a module its line, if there is one of the same file, or room for one.  The other half of the
 * room is the event's. */
static char *put_module(struct pfw_json_source *source, char *out, struct pfw_stack_module *module,
			uint64_t ts_ns)
{
	const char *limit = source->limit - PFW_JSON_LINE_MAX / 2;
	struct pfw_stacks_chunk *stacks = source->json->stacks;
	struct pfw_stack_text path = pfw_stack_path(module);
	const char *text = pfw_stack_text(stacks, path);
	uint64_t line = text ? line_of_same(stacks, module) : 0;

	if (line)
		atomic_store_explicit(&module->line, line, memory_order_relaxed);
	else if (text && PFW_JSON_STRING_ROOM(path.bytes) * 2 + PFW_JSON_FIXED_ROOM <
				 (size_t)(limit > out ? limit - out : 0))
		out = module_line(source->json, out, module, text, path.bytes, ts_ns);
	return out;
}

char *pfw_json_put_modules(struct pfw_json_source *source, char *out, uint32_t stack,
			   uint64_t ts_ns)
{
	struct pfw_json *json = source->json;
	const _Atomic uint64_t *frame = NULL;
	unsigned count = pfw_stack_frames(json->stacks, stack, &frame);

	for (unsigned i = 0; i < count; i++) {
		uint64_t word = atomic_load_explicit(&frame[i], memory_order_relaxed);
		struct pfw_stack_module *module = module_of(json, word);

		if (word >> PFW_FRAME_KIND_SHIFT == PFW_FRAME_NATIVE && module &&
		    !atomic_load_explicit(&module->line, memory_order_relaxed))
			out = put_module(source, out, module, ts_ns);
	}
	return out;
}

/* ---- the frames ---- */

static char *put_text(struct pfw_json_source *source, char *out, struct pfw_stack_text text)
{
	const char *bytes = pfw_stack_text(source->json->stacks, text);

	if (!bytes ||
	    PFW_JSON_STRING_ROOM(text.bytes) + FRAME_FIXED > (size_t)(source->limit - out))
		return NULL;
	return pfw_json_string(out, bytes, text.bytes, NULL);
}

/* A string that another one continues: without its last quote. */
static char *put_native(struct pfw_json_source *source, char *out, uint64_t word)
{
	const struct pfw_stack_module *module = module_of(source->json, word);

	out = module ? put_text(source, out, pfw_stack_path(module)) : NULL;
	if (!out)
		return NULL;
	out = put_hex(pfw_append(out - 1, "+0x"), word & PFW_FRAME_ADDRESS_MASK);
	*out++ = '"';
	return out;
}

static char *put_python(struct pfw_json_source *source, char *out, uint64_t word)
{
	uint64_t number = (word & ~(3ull << PFW_FRAME_KIND_SHIFT)) >> PFW_FRAME_CODE_SHIFT;
	const struct pfw_stack_code *code;
	char *begin;

	if (number >= PFW_STACK_CODES)
		return NULL;
	code = &source->json->stacks->code[number];
	out = put_text(source, out, code->file);
	if (!out)
		return NULL;
	out = pfw_append_u64(pfw_append(out - 1, "("), word & UINT32_MAX);
	begin = pfw_append(out, "): ");
	out = put_text(source, begin - 1, code->function);
	if (out)
		begin[-1] = ' '; /* over the quote */
	return out;
}

char *pfw_json_put_stack(struct pfw_json_source *source, char *out, uint32_t stack)
{
	const _Atomic uint64_t *frame = NULL;
	unsigned count = pfw_stack_frames(source->json->stacks, stack, &frame);
	char *end = out;

	out = pfw_append(pfw_json_put_comma(out), "\"stack\":[");
	for (unsigned i = 0; i < count && end; i++) {
		uint64_t word = atomic_load_explicit(&frame[i], memory_order_relaxed);

		if (i)
			*out++ = ',';
		end = word >> PFW_FRAME_KIND_SHIFT == PFW_FRAME_NATIVE
			      ? put_native(source, out, word)
		      : word >> PFW_FRAME_KIND_SHIFT == PFW_FRAME_PYTHON
			      ? put_python(source, out, word)
			      : pfw_append(out, CUT);
		out = end ? end : pfw_append(out, CUT); /* no room for more */
	}
	if (!count)
		out = pfw_append(out, CUT);
	*out++ = ']';
	return out;
}
