/* recorder/writer/modules.c - stacks in the spool, and the paths of their modules.
 *
 * A probe knows a module by the name that libc has, which may be a link's.  Here the kernel is
 * asked for the file's own, before the first line names it.
 */
#include <string.h>

#include "common/base/os.h"
#include "recorder/spool/stacks.h"
#include "recorder/writer/internal.h"

#define LINE_BYTES 8192u /* of /proc/self/maps: a path is at most 4,096 bytes */

void pfw_writer_add_stacks(struct pfw_writer *writer)
{
	pfw_stacks_use(writer->stacks ? pfw_writer_append(writer, PFW_CHUNK_STACKS, 0,
							  sizeof(struct pfw_stacks_chunk))
				      : NULL);
	writer->json.stacks = pfw_stacks;
}

void pfw_writer_forget_modules(struct pfw_writer *writer)
{
	for (unsigned i = 0; writer->json.stacks && i < PFW_STACK_MODULES; i++)
		atomic_store(&writer->json.stacks->module[i].line, 0);
}

/* Replace the path, unless it is the same, or in a line of this trace. */
static void set_path(struct pfw_stack_module *module, const char *path, uint32_t bytes)
{
	struct pfw_stack_text now = pfw_stack_path(module);
	char *text;

	if (atomic_load(&module->line) ||
	    (now.bytes == bytes && !memcmp(pfw_stacks->text + now.at, path, bytes)))
		return;
	text = pfw_stacks_text_take(bytes);
	if (!text)
		return;
	memcpy(text, path, bytes);
	atomic_store_explicit(&module->path, (uint64_t)(text - pfw_stacks->text) << 32 | bytes,
			      memory_order_release);
}

/* A line of maps: "55d0c0a00000-55d0c0a1f000 r--p 00000000 08:02 173521   /usr/bin/dbus-daemon". */
static void take_mapping(void *unused, const char *line, const char *end)
{
	const char *path = strchr(line, '/');
	uint64_t start = 0;

	(void)unused;
	for (; *line && *line != '-'; line++)
		start = start << 4 |
			((uint64_t)(*line <= '9' ? *line - '0' : *line - 'a' + 10) & 15);
	for (unsigned i = 0; path && i < PFW_STACK_MODULES; i++) {
		struct pfw_stack_module *module = &pfw_stacks->module[i];

		if (atomic_load_explicit(&module->state, memory_order_acquire) == 2 &&
		    module->start == start && pfw_stacks_module_is_there(module))
			set_path(module, path, (uint32_t)(end - path));
	}
}

void pfw_writer_name_modules(struct pfw_writer *writer)
{
	uint32_t made = atomic_load_explicit(&pfw_stacks_modules, memory_order_acquire);
	char text[LINE_BYTES];

	if (made == writer->modules_named || !pfw_stacks)
		return;
	writer->modules_named = made;
	pfw_os_read_lines("/proc/thread-self/maps", text, sizeof(text), take_mapping, NULL);
}
