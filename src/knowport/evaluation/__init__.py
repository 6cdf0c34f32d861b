"""Measuring what the product does: sets, runs, measures, statistics, calibration, gates, reports.

``measures``, ``statistics``, ``fitting`` and ``svg`` are pure and import nothing that is not
(enforced). ``summary``, ``tables``, ``reports``, ``html``, ``calibration.calibrate`` and
``gates.judge`` take values and give values. ``datasets`` and ``labelled`` read files; ``scratch``
and ``runs`` ingest and look up through ``KnowledgeBase``, the pipeline that serves agents.
"""
