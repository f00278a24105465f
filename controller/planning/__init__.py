"""
Where replicas may be and how few of them have to move: pure rules, and the small planner.

What holds for one placement is in ``placements``, what no plan can do without in ``bounds``; both
serve every planner there is. ``proposals`` plans a handful of topics in one go. Nothing here reads
a cluster, a clock or dice: the same question has the same answer.
"""
