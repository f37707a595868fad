// Package site tests the site that scripts/site.sh builds from the documents.
package site
