/* recorder/attach/attach.c - redirects calls without the preload object: see attach.h. */
#define PFW_OS_NO_POISON
#include "recorder/attach/attach.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>

#include "common/base/os.h"
#include "common/base/text.h"
#include "common/calls/table.h"
#include "common/format/clock.h"
#include "recorder/attach/object.h"
#include "recorder/attach/preload.h"
#include "recorder/attach/thunks.h"
#include "recorder/guest/say.h"
#include "recorder/probe/call_filter.h"
#include "recorder/wrap/calls.h"

#define NAMES 2048u
#define OTHERS 64u
_Static_assert(PFW_CALL_COUNT < NAMES / 2, "room in the hash of names");

/* Looks that are repeated after an object was loaded: another thread may have been resolving a slot
 * or relocating an object while we rewrote it. */
#define LOOKS_AGAIN 3u
#define LOCK_WAIT_NS 1000000000ull

static struct attach {
	_Atomic uint32_t busy; /* lock of the members below: held by a look or a fork */
	_Atomic bool on;
	bool held;  /* a fork holds `busy` */
	bool named; /* `row` is filled */
	bool said;  /* the one message has been printed */
	/*
	 * The program defines the call itself: an unresolved slot will resolve to that definition.
	 */
	bool own[PFW_CALL_COUNT];
	uint16_t row[NAMES]; /* hash of a name to row + 1; 0 = none */
	/* Versions of a call that are not its default function. */
	struct {
		uint32_t version;
		unsigned row;
	} other[OTHERS];
	unsigned other_count;
	unsigned long long adds, subs; /* dlpi_adds and dlpi_subs at the last look */
	unsigned objects;	       /* how many objects the last look saw */
	/* How many of them were certainly relocated when looked at, because their own start-up code
	 * or that of later objects had run.  Others may have been looked at too early. */
	unsigned settled;
	_Atomic uint32_t again;
} attach;

/* ---- which calls ---- */

static uint32_t hash_name(const char *name)
{
	uint32_t hash = 2166136261u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return hash;
}

static void name_rows(void)
{
	size_t count;
	const struct pfw_call_info *info = pfw_calls_info(&count);

	for (size_t row = 0; row < count; row++) {
		uint32_t at = hash_name(info[row].name);

		while (attach.row[at % NAMES])
			at++;
		attach.row[at % NAMES] = (uint16_t)(row + 1);
	}
	attach.named = true;
}

/* The row of a name, or -1. */
static int row_of(const char *name)
{
	size_t count;
	const struct pfw_call_info *info = pfw_calls_info(&count);
	uint32_t at;

	if (name[0] == '_' && name[1] == 'Z') /* a C++ name: frequent and long */
		return -1;
	for (at = hash_name(name); attach.row[at % NAMES]; at++)
		if (!strcmp(info[attach.row[at % NAMES] - 1].name, name))
			return attach.row[at % NAMES] - 1;
	return -1;
}

static void **real_calls(void)
{
	_Static_assert(sizeof(pfw_real) == PFW_CALL_COUNT * sizeof(void *), "one pointer a row");
	return (void **)&pfw_real;
}

/*
 * The function that the program's calls of a name reach: the first definition, libc's or that of
 * another tool before libc.  A definition in the program is skipped: it may only be the program's
 * procedure linkage table, whose slot will lead to us.
 */
static void find_real(unsigned row, const char *name)
{
	void *volatile found = dlsym(RTLD_DEFAULT, name);
	const ElfW(Sym) *symbol = NULL;
	struct link_map *map = NULL;
	Dl_info info;

	attach.own[row] = false;
	if (found && dladdr1(found, &info, (void **)&map, RTLD_DL_LINKMAP) && map && !map->l_prev) {
		attach.own[row] =
			dladdr1(found, &info, (void **)(uintptr_t)&symbol, RTLD_DL_SYMENT) &&
			symbol && symbol->st_shndx != SHN_UNDEF;
		found = dlsym(RTLD_NEXT, name);
	}
	real_calls()[row] = found;
}

static bool holds(const struct pfw_object *object, const void *address)
{
	return pfw_object_flags(object, (uintptr_t)address) != 0;
}

/* libc keeps old versions of some calls for old programs (posix_spawn@GLIBC_2.2.5).  An unresolved
 * slot that asks for an old version must not be redirected to the new one. */
static int find_others(struct dl_phdr_info *info, size_t size, void *user)
{
	struct pfw_object libc;
	uint32_t count;

	(void)size;
	(void)user;
	if (!pfw_object_read(&libc, info) || !holds(&libc, (void *)gnu_get_libc_version))
		return 0;
	count = pfw_object_symbols(&libc);
	attach.other_count = 0;
	for (uint32_t i = 0; i < count && attach.other_count < OTHERS; i++) {
		const ElfW(Sym) *symbol = &libc.symbols[i];
		int row = symbol->st_shndx ? row_of(libc.strings + symbol->st_name) : -1;

		if (row < 0 || !holds(&libc, real_calls()[row]) ||
		    libc.base + symbol->st_value == (uintptr_t)real_calls()[row])
			continue;
		attach.other[attach.other_count].row = (unsigned)row;
		attach.other[attach.other_count++].version = pfw_object_version(&libc, i);
	}
	return 1;
}

static bool other_version(const struct pfw_object *object, uint32_t symbol, unsigned row)
{
	for (unsigned i = 0; i < attach.other_count; i++)
		if (attach.other[i].row == row &&
		    attach.other[i].version == pfw_object_version(object, symbol))
			return true;
	return false;
}

/* ---- protection of pages ---- */

/* A range of memory; the low bits of `end` are its protection. */
struct mapping {
	uintptr_t start, end;
};

#define MAPS_TEXT 65536u
#define MAPS_BYTES (MAPS_TEXT + 131072u * sizeof(struct mapping))

/* One look at all objects. */
struct look {
	bool all;	  /* look also at objects seen before */
	bool told;	  /* start-up code reported a dlopen: the new objects are relocated */
	unsigned seen;	  /* the first objects of the list, which are skipped */
	unsigned objects; /* objects seen in this look */
	int error;	  /* -errno: the look could not begin */
	char *maps;	  /* MAPS_BYTES: /proc/self/maps as text, then as mappings */
	size_t mapping_count;
	bool doubted; /* the map was read twice */
	uintptr_t page_bytes;
	uintptr_t page; /* page that is writable for now; 0 = none */
	int page_prot;	/* its protection before */
	struct pfw_object program;
	/* The first object in which a call cannot be redirected, and why. */
	const char *why, *call;
	int why_error;
	char which[256];
};

static struct mapping *mappings(const struct look *look)
{
	return (struct mapping *)(look->maps + MAPS_TEXT);
}

static void add_mapping(void *user, const char *line, const char *end)
{
	struct look *look = user;
	struct mapping *mapping = &mappings(look)[look->mapping_count];

	(void)end;
	if (look->mapping_count == (MAPS_BYTES - MAPS_TEXT) / sizeof(*mapping))
		return;
	line = pfw_text_hex(line, &mapping->start);
	line = pfw_text_hex(line + 1, &mapping->end);
	mapping->end |= (line[1] == 'r' ? PROT_READ : 0u) | (line[2] == 'w' ? PROT_WRITE : 0u) |
			(line[3] == 'x' ? PROT_EXEC : 0u);
	look->mapping_count++;
}

static int read_maps(struct look *look)
{
	look->mapping_count = 0;
	return pfw_os_read_lines("/proc/self/maps", look->maps, MAPS_TEXT, add_mapping, look);
}

/* PROT_* of an address according to the object's headers, after relocation. */
static int prot_wanted(const struct pfw_object *object, uintptr_t address)
{
	uint32_t flags = pfw_object_flags(object, address);
	bool relro = address >= object->relro && address < object->relro_end;

	return (flags & PF_W && !relro ? PROT_WRITE : 0) | (flags & PF_X ? PROT_EXEC : 0) |
	       PROT_READ;
}

/* PROT_* of an address according to the map, or -1. */
static int prot_mapped(const struct look *look, uintptr_t address)
{
	size_t low = 0, high = look->mapping_count;
	uintptr_t bits = look->page_bytes - 1;
	const struct mapping *mapping = mappings(look);

	while (low < high) {
		size_t middle = (low + high) / 2;

		if ((mapping[middle].end & ~bits) <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == look->mapping_count || mapping[low].start > address)
		return -1;
	return (int)(mapping[low].end & bits);
}

/*
 * PROT_* of an address, or -1.  An object that the linker has just finished needs no map (reading
 * the map of a large program takes 1 ms).  If the map has read-only what the object declares
 * writable, the map is read again: qemu-user composes it at two moments, and restoring read-only
 * wrongly would kill the program.
 */
static int prot_of(struct look *look, const struct pfw_object *object, uintptr_t address)
{
	int wanted = prot_wanted(object, address), prot;

	if (!look->maps)
		return wanted;
	prot = prot_mapped(look, address);
	if (prot < 0 || look->doubted || !(wanted & ~prot & PROT_WRITE))
		return prot;
	look->doubted = true;
	return read_maps(look) ? prot : prot_mapped(look, address);
}

/* ---- writing ---- */

static void cannot(struct look *look, const struct pfw_object *object, const char *call,
		   const char *why)
{
	size_t bytes = strnlen(object->name, sizeof(look->which) - 1);

	if (look->why)
		return;
	look->why = why;
	look->call = call;
	memcpy(look->which, object->name, bytes);
	look->which[bytes] = '\0';
}

/* Restore the protection of the page. */
static void close_page(struct look *look)
{
	if (look->page)
		pfw_os_mprotect((void *)look->page, look->page_bytes, look->page_prot);
	look->page = 0;
}

/* Make a word writable.  A page that is to be read-only after relocation and is still writable
 * belongs to a dlopen in progress in another thread: a later look finds it finished. */
static bool open_page(struct look *look, const struct pfw_object *object, uintptr_t word)
{
	uintptr_t page = word & ~(look->page_bytes - 1);
	int prot, error;

	if (page == look->page)
		return true;
	close_page(look);
	prot = prot_of(look, object, word);
	if (prot < 0)
		return false;
	if (prot & PROT_WRITE)
		return !atomic_load(&attach.on) || word < object->relro ||
		       word >= object->relro_end;
	if (prot & PROT_EXEC || !(pfw_object_flags(object, word) & PF_W)) {
		cannot(look, object, "I/O calls", "their addresses are in its program text");
		return false;
	}
	error = pfw_os_mprotect((void *)page, look->page_bytes, PROT_READ | PROT_WRITE);
	if (error) {
		look->why_error = look->why ? look->why_error : -error;
		cannot(look, object, "I/O calls", "their addresses cannot be made writable");
		return false;
	}
	look->page = page;
	look->page_prot = prot;
	return true;
}

/* An unresolved slot leads into the object's own text, which calls the linker. */
static bool unresolved(const struct pfw_object *object, const struct pfw_object_slot *slot,
		       const void *now)
{
	return slot->called && object->symbols[slot->symbol].st_shndx == SHN_UNDEF &&
	       pfw_object_flags(object, (uintptr_t)now) & PF_X;
}

/*
 * The slot leads to an old version of the call, or to another tool that redirects calls: leave it
 * alone and print a message.  No message if it leads to the object itself, to the program (which
 * has a slot of its own, or defines the function) or nowhere (the object is not relocated yet).
 */
static void leads_elsewhere(struct look *look, const struct pfw_object *object, const void *now,
			    unsigned row)
{
	size_t count;

	if ((uintptr_t)now > object->base && now && !holds(object, now) &&
	    !holds(&look->program, now))
		cannot(look, object, pfw_calls_info(&count)[row].name,
		       "it leads to an old version, or to another tool");
}

/* Redirect one slot to the wrapper, or back.  Threads may call through it meanwhile. */
static void lead(struct look *look, const struct pfw_object *object,
		 const struct pfw_object_slot *slot, unsigned row)
{
	void *now = atomic_load_explicit(slot->word, memory_order_relaxed);
	void *real = real_calls()[row], *to = real;
	bool ours = now == pfw_wrappers[row] || pfw_thunks_is(row, now);

	if (ours == atomic_load(&attach.on))
		return;
	if (!ours && now != real) {
		bool open = unresolved(object, slot, now);

		if (!open)
			leads_elsewhere(look, object, now, row);
		if (!open || !real || attach.own[row] || other_version(object, slot->symbol, row))
			return;
	}
	if (!open_page(look, object, (uintptr_t)slot->word))
		return;
	if (!ours)
		to = slot->called ? pfw_wrappers[row] : pfw_thunks_of(row);
	/* Release: a thread that calls the wrapper must see pfw_real. */
	atomic_store_explicit(slot->word, to, memory_order_release);
}

static void rewrite(struct look *look, const struct pfw_object *object)
{
	struct pfw_object_slot slot;

	for (int i = 0; i < 2; i++) {
		for (size_t k = 0; k < object->relocation_count[i]; k++) {
			int row = -1;

			if (pfw_object_slot(object, &object->relocations[i][k], &slot))
				row = row_of(object->strings +
					     object->symbols[slot.symbol].st_name);
			if (row >= 0 && pfw_call_filter_wraps((unsigned)row))
				lead(look, object, &slot, (unsigned)row);
		}
	}
	close_page(look);
}

/* ---- looking ---- */

/* Called for the program, the first object of the list: whether there is anything to do. */
static bool begin_look(struct look *look, const struct dl_phdr_info *info)
{
	if (info->dlpi_adds == attach.adds && info->dlpi_subs == attach.subs && !look->all &&
	    !(look->told && attach.settled < attach.objects))
		return false;
	if (info->dlpi_subs != attach.subs) {
		look->all = true;
		attach.settled = 0;
	}
	look->seen = look->told ? attach.settled : attach.objects;
	attach.adds = info->dlpi_adds;
	attach.subs = info->dlpi_subs;
	look->page_bytes = getauxval(AT_PAGESZ);
	if (look->told && !look->all)
		return true;
	look->maps = pfw_os_mmap(MAPS_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	look->error = look->maps ? read_maps(look) : -ENOMEM;
	return !look->error;
}

static bool has_interpreter(const struct dl_phdr_info *info)
{
	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_INTERP)
			return true;
	return false;
}

static int visit(struct dl_phdr_info *info, size_t size, void *user)
{
	struct look *look = user;
	struct pfw_object object;

	(void)size;
	if (!look->objects && !begin_look(look, info))
		return 1;
	if (!pfw_object_read(&object, info))
		object.relocation_count[0] = object.relocation_count[1] = 0;
	if (!look->objects) {
		look->program = object;
		if (!has_interpreter(info))
			cannot(look, &object, "I/O calls", "it is statically linked");
	}
	look->objects++;
	if ((look->all || look->objects > look->seen) && !holds(&object, (void *)visit) &&
	    !holds(&object, (void *)gnu_get_libc_version))
		rewrite(look, &object);
	return 0;
}

/* Bounded, since a thread that forks may wait for the linker's lock, which this thread holds in
 * dlopen. */
static bool lock(void)
{
	uint64_t since = 0, now;

	while (atomic_exchange(&attach.busy, 1)) {
		now = pfw_clock_ns(CLOCK_MONOTONIC);
		since = since ? since : now;
		if (now - since > LOCK_WAIT_NS)
			return false;
		pfw_os_sleep_ns(20000);
	}
	return true;
}

static void unlock(void)
{
	atomic_store(&attach.busy, 0);
}

static void say_why(const struct look *look)
{
	char line[512];
	struct pfw_text text;

	if (attach.said || !look->why)
		return;
	attach.said = true;
	pfw_text_init(&text, line, sizeof(line));
	PFW_TEXT_ADD(&text, "not recorded: ", look->call, " of ",
		     *look->which ? look->which : "the program", ": ", look->why);
	if (look->why_error) {
		pfw_text_add(&text, " (errno ");
		pfw_text_add_u64(&text, (uint64_t)look->why_error, 1);
		pfw_text_add(&text, "): start the program with `pfw run`");
	}
	pfw_say(line);
}

/* Signals are blocked: a handler that jumped out would leave the linker's lock held.  The message
 * is printed after the locks are released. */
static int take_look(bool all, bool told)
{
	struct look look = { .all = all, .told = told };
	sigset_t every, old;

	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, &old);
	if (!lock()) {
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		return -EBUSY;
	}
	dl_iterate_phdr(visit, &look);
	if (look.error)
		attach.adds = 0; /* so that the next look does not skip the new objects */
	if (look.objects) {
		attach.objects = look.objects;
		if (told)
			attach.settled = look.objects;
		if (!all)
			atomic_store(&attach.again, LOOKS_AGAIN);
	}
	if (look.maps)
		pfw_os_munmap(look.maps, MAPS_BYTES);
	unlock();
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	say_why(&look);
	return look.error;
}

void pfw_attach_look(void)
{
	uint32_t again = atomic_load(&attach.again);

	if (!atomic_load_explicit(&attach.on, memory_order_relaxed))
		return;
	if (again)
		atomic_compare_exchange_strong(&attach.again, &again, again - 1);
	take_look(again != 0, false);
}

/*
 * The start-up code from crti.o, which nearly every object has, calls this name if it is defined:
 * after the object and its dependencies have been relocated and before constructors run.  So each
 * dlopen is reported in time and dlopen need not be wrapped.  The hook exists for profilers.  A
 * program built with -pg defines it itself, and a few objects lack crti.o: the writer's looks find
 * those.
 */
__attribute__((visibility("default"))) void __gmon_start__(void);
/* A sanitizer's runtime calls it, too, before its shadow memory is ready. */
__attribute__((no_sanitize("address"))) void __gmon_start__(void)
{
	int error = errno;

	if (atomic_load_explicit(&attach.on, memory_order_relaxed))
		take_look(false, true);
	errno = error;
}

/* Make our symbols global, also if we were opened with RTLD_LOCAL (by Python), so that objects
 * loaded later find the name. */
static void be_seen(void)
{
	Dl_info here;

	if (dladdr((void *)visit, &here) && here.dli_fname)
		dlopen(here.dli_fname, RTLD_NOLOAD | RTLD_LAZY | RTLD_GLOBAL);
}

int pfw_attach(void)
{
	size_t count;
	const struct pfw_call_info *info = pfw_calls_info(&count);
	int error;

	if (!attach.named)
		name_rows();
	for (unsigned row = 0; row < count; row++)
		find_real(row, info[row].name);
	dl_iterate_phdr(find_others, NULL);
	be_seen();
	pfw_attach_clear_dlerror(); /* this libc may lack a name */
	pfw_thunks_lead(true);
	atomic_store(&attach.on, true);
	atomic_store(&attach.again, LOOKS_AGAIN);
	error = take_look(true, false);
	if (error) {
		atomic_store(&attach.on, false);
		pfw_say_number("/proc/self/maps cannot be read (errno ", (uint64_t)-error,
			       "): I/O calls are not recorded; start the program with `pfw run`");
	}
	return error;
}

void pfw_detach(void)
{
	if (!atomic_exchange(&attach.on, false))
		return;
	take_look(true, false);
	pfw_thunks_lead(false);
}

/* ---- what stands against being unloaded ---- */

/* Code that leaves a call of libc's suspended, on a stack that no thread has, and goes on later on. */
static bool suspends(const struct pfw_object *object)
{
	struct pfw_object_slot slot;

	for (int i = 0; i < 2; i++)
		for (size_t k = 0; k < object->relocation_count[i]; k++)
			if (pfw_object_slot(object, &object->relocations[i][k], &slot) &&
			    !strcmp(object->strings + object->symbols[slot.symbol].st_name,
				    "swapcontext"))
				return true;
	return false;
}

static int visit_to_leave(struct dl_phdr_info *info, size_t size, void *user)
{
	struct pfw_object object;
	const char **why = user;

	(void)size;
	if (!pfw_object_read(&object, info))
		return 0;
	if (holds(&object, (void *)gnu_get_libc_version)) {
		for (unsigned row = 0; row < PFW_CALL_COUNT && !*why; row++)
			if (real_calls()[row] && !holds(&object, real_calls()[row]))
				*why = "another library stands before libc, and may keep our calls "
				       "waiting in it";
	} else if (suspends(&object)) {
		*why = "it uses swapcontext(), by which a call of ours may wait where nobody sees it";
	}
	return *why != NULL;
}

/* Since 2.34 dlclose() is safe beside threads that begin. */
static bool old_libc(void)
{
	const char *minor = strchr(gnu_get_libc_version(), '.');

	return !minor || minor[1] < '3' || (minor[1] == '3' && minor[2] < '4');
}

const char *pfw_attach_stays(void)
{
	const char *why = pfw_thunks_suffice() ? NULL : "no memory can be made executable in it";

	if (old_libc())
		return "its libc is older than 2.34, whose dlclose() is not safe beside threads";
	if (!why)
		dl_iterate_phdr(visit_to_leave, &why);
	return why;
}

void pfw_attach_hold(void)
{
	attach.held = lock();
}

void pfw_attach_release(bool child)
{
	if (attach.held || child)
		unlock();
	attach.held = false;
}
