/* recorder/stack/modules.c - libc knows where modules are; the spool remembers those of stacks. */
#include "recorder/stack/modules.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "common/base/os.h"
#include "recorder/guest/peek.h"
#include "recorder/spool/stacks.h"

#define EARLY 256u
#define PATH_BYTES 4096u
#define NOTES_BYTES 1024u

/* libc's answer, of which older headers know nothing. */
struct found {
	unsigned long long flags;
	void *start, *end, *link_map, *header;
	unsigned long long reserved[8];
};

/* A module of the list that is made where libc has no search. */
struct early {
	uint64_t bias; /* as struct link_map begins */
	const char *name;
	uint64_t start, end, header;
};

static struct {
	int (*find)(void *address, struct found *found);
	struct early early[EARLY];
	unsigned early_count;
	uint64_t vdso;
	uint64_t lasting[6]; /* starts of modules that are never unloaded */
	bool ours[PFW_STACK_MODULES];
} modules;

static int note_early(struct dl_phdr_info *info, size_t bytes, void *unused)
{
	struct early *early = &modules.early[modules.early_count];

	(void)bytes;
	(void)unused;
	if (modules.early_count == EARLY)
		return 1;
	*early = (struct early){ .bias = info->dlpi_addr,
				 .name = info->dlpi_name,
				 .start = UINT64_MAX };
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uint64_t at = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_GNU_EH_FRAME)
			early->header = at;
		if (segment->p_type != PT_LOAD)
			continue;
		if (early->start > (at & ~4095ull))
			early->start = at & ~4095ull;
		if (early->end < at + segment->p_memsz)
			early->end = at + segment->p_memsz;
	}
	modules.early_count++;
	return 0;
}

/* The program, libc and what it begins with, the kernel's, the recorder, and an interpreter. */
void pfw_modules_init(void)
{
	const uint64_t address[] = {
		getauxval(AT_PHDR),
		getauxval(AT_BASE),
		(uint64_t)(uintptr_t)qsort,
		getauxval(AT_SYSINFO_EHDR),
		(uint64_t)(uintptr_t)pfw_modules_init,
		(uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "Py_GetVersion"),
	};
	struct pfw_module module;

	_Static_assert(PFW_ARRAY_LEN(address) == PFW_ARRAY_LEN(modules.lasting), "each has one");
	modules.vdso = getauxval(AT_SYSINFO_EHDR);
	*(void **)&modules.find = dlsym(RTLD_DEFAULT, "_dl_find_object");
	modules.early_count = 0;
	if (!modules.find)
		dl_iterate_phdr(note_early, NULL);
	for (size_t i = 0; i < PFW_ARRAY_LEN(address); i++)
		modules.lasting[i] = pfw_module_find(&module, address[i]) ? module.cfi.start : 0;
}

static bool find_early(struct pfw_module *module, uint64_t address)
{
	for (unsigned i = 0; i < modules.early_count; i++) {
		const struct early *early = &modules.early[i];

		if (address - early->start >= early->end - early->start)
			continue;
		module->cfi = (struct pfw_cfi){ early->header, early->start, early->end };
		module->link_map = (uint64_t)(uintptr_t)early;
		return true;
	}
	return false;
}

bool pfw_module_find(struct pfw_module *module, uint64_t address)
{
	struct found found;

	if (!modules.find) {
		if (!find_early(module, address))
			return false;
	} else {
		if (modules.find((void *)(uintptr_t)address, &found))
			return false;
		module->cfi = (struct pfw_cfi){ (uint64_t)(uintptr_t)found.header,
						(uint64_t)(uintptr_t)found.start,
						(uint64_t)(uintptr_t)found.end };
		module->link_map = (uint64_t)(uintptr_t)found.link_map;
	}
	module->stamp = pfw_stacks_mix(pfw_stacks_mix(module->cfi.start, module->cfi.header),
				       module->link_map);
	return true;
}

/* ---- what the spool keeps of a module ---- */

/* Bytes of the text at `from`, which may end at an unreadable page; up to `room`. */
static uint32_t copy_text(char *to, uint64_t from, uint32_t room)
{
	uint32_t bytes = 0;

	while (bytes < room) {
		uint32_t step = 64 - (uint32_t)((from + bytes) % 64), length;

		step = step < room - bytes ? step : room - bytes;
		if (!pfw_peek(to + bytes, (const void *)(uintptr_t)(from + bytes), step))
			return 0;
		length = (uint32_t)strnlen(to + bytes, step);
		bytes += length;
		if (length < step)
			break;
	}
	return bytes;
}

/* Whether a name begins with "./", which the kernel does not show. */
static bool is_here(uint64_t name)
{
	char begin[2] = { 0 };

	return pfw_peek(begin, (const void *)(uintptr_t)name, 2) && begin[1] == '/';
}

/* The path as libc knows it; the writer finds out the file's own. */
static uint32_t read_path(char *to, const struct pfw_module *module, uint64_t name)
{
	char first = '\0';
	long n;

	if (module->cfi.start == modules.vdso) {
		memcpy(to, "[vdso]", 6);
		return 6;
	}
	if (name)
		pfw_peek(&first, (const void *)(uintptr_t)name, 1);
	if (first == '/')
		return copy_text(to, name, PATH_BYTES);
	if (first) { /* opened by a relative name, from where the program is, or was */
		n = pfw_os_getcwd(to, PATH_BYTES / 2);
		if (n <= 0)
			return copy_text(to, name, PATH_BYTES);
		to[n] = '/';
		name += first == '.' && is_here(name) ? 2 : 0;
		return (uint32_t)n + 1 + copy_text(to + n + 1, name, PATH_BYTES / 2 - 1);
	}
	n = pfw_syscall6(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)to, PATH_BYTES, 0,
			 0);
	return n > 0 ? (uint32_t)n : 0;
}

static void put_path(struct pfw_stack_module *entry, const struct pfw_module *module, uint64_t name)
{
	char *text = pfw_stacks_text_take(PATH_BYTES);
	uint32_t bytes = text ? read_path(text, module, name) : 0;

	if (!text)
		return;
	pfw_stacks_text_return(text + bytes, PATH_BYTES - bytes);
	atomic_store_explicit(&entry->path, (uint64_t)(text - pfw_stacks->text) << 32 | bytes,
			      memory_order_release);
}

static bool is_build_id(const ElfW(Nhdr) * note, uint64_t at)
{
	char name[4];

	return note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
	       note->n_descsz <= PFW_BUILD_ID_MAX &&
	       pfw_peek(name, (const void *)(uintptr_t)(at + sizeof(*note)), 4) &&
	       !memcmp(name, "GNU", 4);
}

/* Where it is; 0: it is not there. */
static uint64_t put_build_id(struct pfw_stack_module *entry, uint64_t at, uint64_t bytes)
{
	uint64_t found = 0, end = at + (bytes < NOTES_BYTES ? bytes : NOTES_BYTES);
	ElfW(Nhdr) note;

	while (!found && at + sizeof(note) < end &&
	       pfw_peek(&note, (const void *)(uintptr_t)at, sizeof(note))) {
		uint64_t text = at + sizeof(note) + ((note.n_namesz + 3ull) & ~3ull);

		if (is_build_id(&note, at) &&
		    pfw_peek(entry->build_id, (const void *)(uintptr_t)text, note.n_descsz)) {
			entry->build_id_bytes = note.n_descsz;
			found = text;
		}
		at = text + ((note.n_descsz + 3ull) & ~3ull);
	}
	return found;
}

/* Bytes that tell this file from others: of its build id, else the sizes of a segment. */
static void mark(struct pfw_stack_module *entry, uint64_t at)
{
	if (pfw_peek(entry->mark, (const void *)(uintptr_t)at, sizeof(entry->mark)))
		entry->mark_at = at;
	for (size_t i = 0; i < PFW_ARRAY_LEN(modules.lasting); i++)
		if (entry->start == modules.lasting[i])
			entry->mark_at = 0;
}

/* The module's own headers are at the begin of its first segment. */
static __attribute__((noinline)) void read_notes(struct pfw_stack_module *entry)
{
	ElfW(Ehdr) head;
	ElfW(Phdr) segment;
	uint64_t marked = 0;

	if (!pfw_peek(&head, (const void *)(uintptr_t)entry->start, sizeof(head)) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_phentsize != sizeof(segment))
		return;
	for (unsigned i = 0; i < head.e_phnum; i++) {
		uint64_t at = entry->start + head.e_phoff + i * sizeof(segment);

		if (!pfw_peek(&segment, (const void *)(uintptr_t)at, sizeof(segment)))
			break;
		if (segment.p_type == PT_NOTE && !entry->build_id_bytes) {
			at = put_build_id(entry, entry->bias + segment.p_vaddr, segment.p_memsz);
			marked = at ? at : marked;
		} else if (segment.p_type == PT_LOAD && segment.p_flags & PF_X && !marked) {
			marked = at + offsetof(ElfW(Phdr), p_filesz);
		}
	}
	if (marked)
		mark(entry, marked);
}

static bool is_ours(const struct pfw_stack_module *entry)
{
	struct pfw_stack_text path = pfw_stack_path(entry);
	const char *text = pfw_stacks->text + path.at, *name;

	name = path.bytes ? memrchr(text, '/', path.bytes) : NULL;
	return name && path.bytes - (size_t)(name + 1 - text) > 9 &&
	       (!memcmp(name, "/libpfw.so", 10) || !memcmp(name, "/libpfw_pr", 10));
}

void pfw_module_enter(struct pfw_module *module)
{
	struct pfw_stack_module *entry;
	uint64_t head[2] = { 0 };
	bool fresh;

	module->ours = false;
	module->number =
		pfw_stacks_module(module->cfi.start, module->cfi.end, module->link_map, &fresh);
	if (module->number < 0)
		return;
	if (fresh) {
		entry = &pfw_stacks->module[module->number];
		pfw_peek(head, (const void *)(uintptr_t)module->link_map, sizeof(head));
		entry->bias = head[0];
		put_path(entry, module, head[1]);
		read_notes(entry);
		modules.ours[module->number] = is_ours(entry);
		pfw_stacks_module_done(module->number);
	}
	module->ours = modules.ours[module->number];
	/* Rules that were kept for another file at this place are none. */
	module->stamp = pfw_stacks_mix(module->stamp, (uint64_t)(unsigned)module->number);
}

uint64_t pfw_module_frame(const struct pfw_module *module, uint64_t address)
{
	return pfw_frame(PFW_FRAME_NATIVE,
			 (uint64_t)(unsigned)module->number << PFW_FRAME_MODULE_SHIFT |
				 ((address - pfw_stacks->module[module->number].bias) &
				  PFW_FRAME_ADDRESS_MASK));
}
