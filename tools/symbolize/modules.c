/* tools/symbolize/modules.c - finds the file of a module, and checks that it is what ran. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/kit/grow.h"
#include "store/line/frame.h"
#include "store/sys/open.h"
#include "symbolize/elfutils.h"
#include "symbolize/symbolize.h"
#include "ui/cli.h"

#define SHOWN 10u /* messages of modules */

/* ---- build ids ---- */

static int digit_of(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* An id is a whole number of bytes in hex digits. */
static unsigned read_id(uint8_t id[MODULE_ID_MAX], const char *text, size_t bytes)
{
	if (bytes % 2 || bytes > 2 * MODULE_ID_MAX)
		return 0;
	for (size_t i = 0; i < bytes; i += 2) {
		int high = digit_of(text[i]), low = digit_of(text[i + 1]);

		if (high < 0 || low < 0)
			return 0;
		id[i / 2] = (uint8_t)(high << 4 | low);
	}
	return (unsigned)bytes / 2;
}

/* ---- files ---- */

#ifdef PFW_HAVE_DW

static const char *id_text(char out[2 * MODULE_ID_MAX + 1], const uint8_t *id, unsigned bytes)
{
	for (unsigned i = 0; i < bytes && i < MODULE_ID_MAX; i++)
		sprintf(out + 2 * i, "%02x", id[i]);
	return bytes ? out : "none";
}

/* The build id of what is open; 0 bytes: none. */
static unsigned id_of(const struct module *module, const uint8_t **id)
{
	GElf_Addr at;
	int bytes = elfutils.dwfl_module_build_id(module->elf, id, &at);

	return bytes > 0 ? (unsigned)bytes : 0;
}

static void close_elf(struct module *module)
{
	if (module->dwfl)
		elfutils.dwfl_end(module->dwfl);
	module->dwfl = NULL;
	module->elf = NULL;
}

static bool begin(struct modules *modules, struct module *module)
{
	Dwfl_Callbacks *callbacks = modules->callbacks;

	if (!callbacks) {
		callbacks = modules->callbacks = calloc(1, sizeof(*callbacks));
		if (!callbacks)
			return false;
		*callbacks =
			(Dwfl_Callbacks){ .find_elf = elfutils.dwfl_build_id_find_elf,
					  .find_debuginfo = elfutils.dwfl_standard_find_debuginfo,
					  .debuginfo_path = &modules->debug_path };
	}
	module->dwfl = elfutils.dwfl_begin(callbacks);
	return module->dwfl != NULL;
}

/* Open a file as the module.  0, or -errno with why. */
static int open_elf(struct modules *modules, struct module *module, const char *path)
{
	int fd = pfw_open_file(path, PFW_OPEN_LINK, NULL);

	if (fd < 0) {
		snprintf(module->why, sizeof(module->why), "%s", strerror(-fd));
		return fd;
	}
	if (begin(modules, module))
		module->elf =
			elfutils.dwfl_report_elf(module->dwfl, module->path, path, fd, 0, true);
	if (module->elf) /* libdwfl closes the file */
		return elfutils.dwfl_report_end(module->dwfl, NULL, NULL) ? -EINVAL : 0;
	snprintf(module->why, sizeof(module->why), "%s", elfutils.dwfl_errmsg(-1));
	close_elf(module);
	close(fd);
	return -EINVAL;
}

/* Whether what is open has the module's build id; else it is closed, with why. */
static bool is_same(struct module *module)
{
	char was[2 * MODULE_ID_MAX + 1], is[2 * MODULE_ID_MAX + 1];
	const uint8_t *id = NULL;
	unsigned bytes = id_of(module, &id);

	if (!module->id_bytes || (bytes == module->id_bytes && memcmp(id, module->id, bytes) == 0))
		return true;
	snprintf(module->why, sizeof(module->why),
		 "it has changed: the trace has build id %s, the "
		 "file %s",
		 id_text(was, module->id, module->id_bytes), id_text(is, id, bytes));
	close_elf(module);
	return false;
}

/* The debug file of that build: it has the addresses, too. */
static bool open_debug_file(struct modules *modules, struct module *module, const char *root)
{
	char path[PATH_MAX], id[2 * MODULE_ID_MAX + 1];
	int bytes;

	id_text(id, module->id, module->id_bytes);
	bytes = snprintf(path, sizeof(path), "%s/usr/lib/debug/.build-id/%.2s/%s.debug", root, id,
			 id + 2);
	return bytes < (int)sizeof(path) && access(path, F_OK) == 0 &&
	       open_elf(modules, module, path) == 0 && is_same(module);
}

/* What libdwfl finds by the build id, from debuginfod if that is set. */
static bool open_by_id(struct modules *modules, struct module *module)
{
	GElf_Addr bias;

	if (!begin(modules, module))
		return false;
	elfutils.dwfl_report_begin(module->dwfl);
	module->elf = elfutils.dwfl_report_module(module->dwfl, module->path, 0, INT64_MAX);
	if (module->elf &&
	    elfutils.dwfl_module_report_build_id(module->elf, module->id, module->id_bytes, 0) ==
		    0 &&
	    elfutils.dwfl_report_end(module->dwfl, NULL, NULL) == 0 &&
	    elfutils.dwfl_module_getelf(module->elf, &bias)) {
		module->bias = bias;
		return true;
	}
	close_elf(module);
	return false;
}

static void look(struct modules *modules, struct module *module)
{
	char path[PATH_MAX], why[sizeof(module->why)];
	bool fits = snprintf(path, sizeof(path), "%s%s", modules->root, module->path) <
		    (int)sizeof(path);
	int error = fits ? open_elf(modules, module, path) : -ENAMETOOLONG;

	module->state = MODULE_OPEN;
	if (!error && is_same(module))
		return;
	memcpy(why, module->why, sizeof(why));
	if (module->id_bytes > 1 && (open_debug_file(modules, module, modules->root) ||
				     (*modules->root && open_debug_file(modules, module, "")) ||
				     open_by_id(modules, module)))
		return;
	memcpy(module->why, fits ? why : "its name is too long", fits ? sizeof(why) : 21);
	module->state = error ? MODULE_MISSING : MODULE_CHANGED;
}

#else

static void close_elf(struct module *module)
{
	(void)module;
}

static void look(struct modules *modules, struct module *module)
{
	(void)modules;
	module->state = MODULE_MISSING;
}

#endif

void modules_open(struct modules *modules, struct module *module)
{
	if (module->state != MODULE_NEW)
		return;
	if (*module->path != '/') {
		module->state = MODULE_NAMELESS;
		return;
	}
	module->library = !pfw_frame_users_file(module->path, strlen(module->path));
	look(modules, module);
}

/* ---- all of them ---- */

int modules_add(struct modules *modules, const char *path, size_t path_bytes, const char *id,
		size_t id_bytes, uint32_t *number)
{
	struct module *module = calloc(1, sizeof(*module));

	if (module)
		module->path = strndup(path, path_bytes);
	if (!module || !module->path || PFW_APPEND(modules->module, modules->count, module)) {
		free(module ? (char *)(uintptr_t)module->path : NULL);
		free(module);
		return -ENOMEM;
	}
	module->id_bytes = read_id(module->id, id, id_bytes);
	*number = (uint32_t)modules->count - 1;
	return 0;
}

size_t modules_say(const struct modules *modules, const char *command)
{
	size_t count = 0;

	for (size_t i = 0; i < modules->count; i++) {
		const struct module *module = modules->module[i];

		if (module->state != MODULE_MISSING && module->state != MODULE_CHANGED)
			continue;
		if (count++ < SHOWN)
			cli_error(command, "%s: %s; its frames stay addresses",
				  cli_name(module->path), module->why);
	}
	if (count > SHOWN)
		cli_error(command, "and %s more programs and libraries are missing or have changed",
			  cli_count(count - SHOWN));
	return count;
}

void modules_release(struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++) {
		close_elf(modules->module[i]);
		free((char *)(uintptr_t)modules->module[i]->path);
		free(modules->module[i]);
	}
	free(modules->module);
	free(modules->debug_path);
	free(modules->callbacks);
}
