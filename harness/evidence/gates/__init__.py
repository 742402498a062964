# SPDX-License-Identifier: Apache-2.0
"""From plain facts to signals: one module per kind of measurement.

Every gate gives one of four answers. "Worse" needs a significant harm; "better or
equal" needs the harm that matters to be excluded, so that a noisy measurement never
passes by being noisy; everything in between is "can't tell". Facts that can't be true,
or are missing, make the measurement invalid.
"""
