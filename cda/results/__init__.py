"""Results: frozen, versioned types; the only shapes that are saved, drawn or returned."""
