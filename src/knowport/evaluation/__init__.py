"""Measuring what the product does: sets, runs, measures, statistics, calibration, gates, reports.

Pure: ``measures``, ``statistics``, ``fitting``, ``summary``, ``reports`` and ``svg``. The others
read files or run lookups through ``KnowledgeBase``, the very pipeline that serves agents.
"""
