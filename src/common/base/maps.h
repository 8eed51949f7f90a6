/* common/base/maps.h - lists the mappings of pfw_os_mmap(), so that `pfw detach` can unmap all. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Note a mapping, or that it is gone or another's, for os.h.  Thread: any.  Signal: safe. */
void pfw_maps_add(void *at, size_t bytes);
void pfw_maps_remove(void *at);

/* All mappings, until take() returns false.  Those beyond the first 1024 are not known. */
void pfw_maps_all(bool (*take)(void *user, void *at, size_t bytes), void *user);
