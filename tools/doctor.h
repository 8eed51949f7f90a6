/* doctor.h - the parts of `pfw doctor`. */
#ifndef DOCTOR_H
#define DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

enum doctor_verdict { DOCTOR_FINE, DOCTOR_WORSE, DOCTOR_WRONG };

struct doctor {
	bool colours;
	int status;
	uint64_t spools;
};

/* One line of findings.  Thread: main, as all here. */
__attribute__((format(printf, 4, 5))) void doctor_say(struct doctor *doctor,
						      enum doctor_verdict verdict, const char *what,
						      const char *format, ...);

/* Whether anything is recorded with this environment, and how much. */
void doctor_recording(struct doctor *doctor);

/* What the profilers of Python's package need: GPU metrics, torch, viztracer. */
void doctor_backends(struct doctor *doctor);

#endif
